"""The hub's side of registration: acceptance, rights, availability and removal of clusters."""
