"""A credential for every member of a Kubernetes fleet, without a human touching a key."""

__version__ = "0.1.0"
