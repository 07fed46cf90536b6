"""Clusters register with client certificates that the signer of the hub's cluster issues."""
