"""A whole fleet in one virtual-time loop: months of its life, faults included, the same for the same seed."""
