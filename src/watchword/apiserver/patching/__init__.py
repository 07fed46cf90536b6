"""Patches of the three content types that change an object by instructions."""
