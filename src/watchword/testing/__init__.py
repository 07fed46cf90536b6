"""Fixtures and builders with which others, too, can test their controllers."""
