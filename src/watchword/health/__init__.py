"""Diagnoses a hub or a cluster, and recommends the next command."""
