"""What is asked of every write beyond RBAC: steps that complete it and steps that refuse it."""
