"""Speaking to any Kubernetes API server: configuration, transport, verbs, watch."""
