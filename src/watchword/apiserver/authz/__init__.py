"""Authorization: RBAC decisions, and the check against privilege escalation."""
