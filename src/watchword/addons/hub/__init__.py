"""The hub's side of add-ons: where they are enabled, their rights, their deployment and registration."""
