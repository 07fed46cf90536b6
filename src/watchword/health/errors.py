"""The errors of reading what a cluster's health depends on."""


class HealthError(Exception):
    """Base of the errors of this package; the message ends with the next step."""


class NotAHub(HealthError):
    """The server does not serve ManagedClusters."""


class UnknownCluster(HealthError):
    """The hub has no cluster of that name."""


class AuditLogUnreadable(HealthError):
    """A file that was given as an audit log cannot be read."""
