"""Where objects live: one revision per write, in order, with the recent past for watchers."""
