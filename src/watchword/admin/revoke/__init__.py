"""Revokes credentials of every kind, and measures when their holders are refused."""
