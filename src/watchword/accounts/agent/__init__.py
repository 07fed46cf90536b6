"""The agent of the add-on: keeps ServiceAccounts on its cluster, and their tokens at the hub."""
