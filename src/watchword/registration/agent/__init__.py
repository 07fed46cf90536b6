"""The cluster's side of registration: the session with the hub, the credential, lease and status."""
