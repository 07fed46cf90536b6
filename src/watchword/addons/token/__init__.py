"""Add-ons register with tokens of a ServiceAccount on the hub."""
