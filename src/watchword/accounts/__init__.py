"""Managed service accounts: one identity on many clusters, its token at the hub.

The hub side is in `hub`, the agent of the add-on in `agent`. Programs that use the tokens start with `tokens` and
`clients`.
"""
