"""A token service for registries: Kubernetes decides who may pull and push."""
