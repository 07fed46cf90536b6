"""What is to be done, and when it is done; nothing here knows who does it."""
