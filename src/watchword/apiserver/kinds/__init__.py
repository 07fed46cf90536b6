"""The built-in kinds: one table serves validation, merging, Protobuf, OpenAPI and discovery."""
