"""Clusters join a hub, are accepted, renew their credential, are denied and leave."""
