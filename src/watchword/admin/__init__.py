"""A whole fleet in one process: hub, clusters and agents."""
