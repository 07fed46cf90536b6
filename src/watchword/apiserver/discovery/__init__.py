"""Discovery: which groups, versions and resources are served."""
