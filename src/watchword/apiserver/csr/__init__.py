"""Certificate signing requests: validation, approval, signing."""
