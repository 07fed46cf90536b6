"""The cluster agent: one file per controller."""
