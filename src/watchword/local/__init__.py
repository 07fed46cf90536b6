"""A hub and its clusters on this machine, in one process: what `watchword up` runs."""
