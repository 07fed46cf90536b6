"""The processes of the product, as data: which controllers a hub and an agent run."""
