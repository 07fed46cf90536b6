"""Documents about what is served: discovery and OpenAPI."""
