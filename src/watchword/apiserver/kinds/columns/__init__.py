"""The columns that `kubectl get` shows for the built-in kinds."""
