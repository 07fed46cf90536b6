"""The life of a credential, the same for every pillar: what is wanted and held, when it is renewed, where it lies."""
