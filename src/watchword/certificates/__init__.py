"""Obtaining and granting client certificates: request, approval policy, strict check of what was issued."""
