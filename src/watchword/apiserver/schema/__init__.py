"""What fields an object may have: the one schema model behind validation, patches and OpenAPI."""
