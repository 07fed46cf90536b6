"""Admission beyond RBAC: steps that complete a write and steps that refuse it."""
