"""How any controller runs: clock, cache, queue, controller, manager."""
