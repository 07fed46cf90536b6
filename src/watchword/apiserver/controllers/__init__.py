"""The controllers every cluster has: namespaces, garbage, accounts, certificates, aggregated roles."""
