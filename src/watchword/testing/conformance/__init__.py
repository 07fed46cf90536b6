"""The same requests sent to any control plane, and their answers made comparable field by field."""
