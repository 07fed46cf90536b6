"""Finds out what keeps a hub or a cluster from being well, and says what to do about it."""
