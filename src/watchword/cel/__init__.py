"""The part of CEL that rules are written in: those of schemas, and those of works about their objects."""
