"""The embedded control plane: a Kubernetes API in one process."""
