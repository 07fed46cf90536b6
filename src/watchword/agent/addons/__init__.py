"""What an agent does for the add-ons of its cluster: credentials, and their health."""
