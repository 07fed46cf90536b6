"""Maps a request to a verb, and its outcome to a response."""
