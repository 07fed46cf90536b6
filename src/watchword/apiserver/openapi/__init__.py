"""OpenAPI documents of everything served: `kubectl explain`, validation and apply read them."""
