"""Reviews, which are answered and not stored: identities and rights."""
