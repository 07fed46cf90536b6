"""Add-ons that are described by an AddOnTemplate instead of a program."""
