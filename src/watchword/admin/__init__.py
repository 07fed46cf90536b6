"""What an administrator does to a fleet: init, join, accept, deny, rotate, revoke, back up."""
