"""Which objects a list, a watch or a deletion means: selectors by labels and by fields."""
