"""The cluster's side of add-ons: their credentials and the health of their agents."""
