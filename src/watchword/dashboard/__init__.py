"""The web dashboard: every credential of a fleet, live and read-only."""
