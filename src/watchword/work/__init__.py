"""Work: what a hub asks a cluster to have becomes objects there, kept as asked, reported on, and removed."""
