"""The hub side of the add-on: installs the agent, follows cluster sets, and makes sure that a deletion revokes."""
