"""ServiceAccount tokens: issued on request, signed, described to the world."""
