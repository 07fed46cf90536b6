"""Authentication: certificates, tokens, impersonation; a bad credential is never treated as anonymous."""
