"""The verbs: what each means for stored objects, one file per verb."""
