"""A whole add-on, small enough to be read: its hub side, and the agent that uses its credential."""
