"""Runs a workload with a subject on fresh real clusters, and says what it cost."""
