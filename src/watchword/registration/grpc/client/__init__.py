"""Answers the requests of an agent over gRPC, as the hub's API server would."""
