"""Who may do what: RBAC decisions, and the guard against granting more than one holds."""
