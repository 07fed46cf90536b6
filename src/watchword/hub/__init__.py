"""One file per promise the hub keeps."""
