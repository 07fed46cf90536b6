"""The gRPC server of a hub: authenticates agents, checks every event, and writes what they may write."""
