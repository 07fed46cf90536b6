"""The reliability bars: each is one command that prints one figure."""
