"""Certificates of add-ons: their requests are approved, and signed by the add-on's own signer."""
