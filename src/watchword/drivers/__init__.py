"""How a proof that a cluster can give becomes a credential that the hub honours."""
