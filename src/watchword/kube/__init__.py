"""A client for any Kubernetes API server: configuration, transport, verbs, watch."""
