"""The parts of the product as a simulated life meets them: one file each."""
