"""Who asks: certificates, tokens, impersonation; a bad credential is never taken for none."""
