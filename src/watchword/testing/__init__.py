"""Fixtures and builders for tests of controllers, also outside of this project."""
