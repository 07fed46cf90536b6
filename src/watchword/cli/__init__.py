"""One file per verb; imports stay lazy so that help is instant."""
