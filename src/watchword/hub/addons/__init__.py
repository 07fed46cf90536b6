"""What the hub does for add-ons: where they are enabled, what lets them have credentials, how they fare."""
