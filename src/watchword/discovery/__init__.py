"""Bootstrap tokens and cluster-info: finding a cluster and trusting it for the right reason."""
