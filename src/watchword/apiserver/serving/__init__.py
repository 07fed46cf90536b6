"""From a request to a verb, and from its outcome to an answer."""
