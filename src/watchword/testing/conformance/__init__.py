"""Sends the same requests to any control plane and compares the responses field by field."""
