"""Klusterlet and ClusterManager become deployments."""
