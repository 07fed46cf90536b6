"""Runs every benchmark beside every peer at hand and writes one table."""
