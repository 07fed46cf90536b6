"""Image pull secrets from bound service account tokens, and the services that make registries accept them."""
