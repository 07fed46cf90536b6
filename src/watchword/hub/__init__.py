"""The hub's controllers, one file each."""
