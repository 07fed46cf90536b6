"""Our client against the official Python client and the closest asynchronous one, each in its own process."""
