"""Kinds, names, labels and conditions of the wire. No I/O, no clock."""
