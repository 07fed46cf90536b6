"""The controller runtime: clock, cache, work queue, controller, manager."""
