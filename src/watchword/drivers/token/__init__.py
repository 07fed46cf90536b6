"""Credentials for add-ons that are tokens of a ServiceAccount on the hub."""
