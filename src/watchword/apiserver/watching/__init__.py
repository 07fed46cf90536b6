"""Streams of changes: each encoded once, each watcher bounded."""
