"""Clusters register and work over gRPC, with CloudEvents, where the hub's API server is not reachable."""
