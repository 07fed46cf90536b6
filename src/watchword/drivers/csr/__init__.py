"""Credentials by certificate signing request: the default way to register."""
