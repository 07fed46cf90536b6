"""CustomResourceDefinitions: what they may say and the kinds that they add."""
