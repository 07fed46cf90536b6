"""One file per promise the agent on a managed cluster keeps."""
