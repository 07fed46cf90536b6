"""The part of CEL that rules of schemas are written in."""
