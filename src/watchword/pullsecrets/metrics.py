"""What is counted of pull secrets: the indicators that the service level objectives are written in."""

from collections.abc import Callable
from datetime import datetime

from watchword.pullsecrets.dockercfg import Credentials
from watchword.pullsecrets.pull_secret import PullSecret
from watchword.runtime.prometheus import CollectorRegistry, Gauge, Histogram
from watchword.runtime.token_metrics import TokenRefreshMetrics, TokenTimes, TokenValidityMetrics

WHERE = "in a pull secret"


class PullSecretMetrics(TokenRefreshMetrics):
    """The series of pull secrets, in the registry of the process."""

    def __init__(self, registry: CollectorRegistry, *, now: Callable[[], datetime]) -> None:
        super().__init__(registry, "pull_secret", WHERE)
        self._times = times = TokenValidityMetrics(registry, "pull_secret", WHERE, now=now).times
        secrets = Gauge("watchword_pull_secrets", "Managed pull secrets by state", ["state"], registry=registry)
        secrets.labels("empty").set_function(lambda: sum(each.expires_at is None for each in times.values()))
        secrets.labels("filled").set_function(lambda: sum(each.expires_at is not None for each in times.values()))
        self.first_token = Histogram(
            "watchword_pull_secret_first_token_seconds",
            "From the creation of a pull secret to its first token",
            buckets=(0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
            registry=registry,
        )

    def observe(self, secret: PullSecret) -> None:
        token = secret.content.token if isinstance(secret.content, Credentials) else None
        self._times[secret.uid] = TokenTimes() if token is None else TokenTimes(token.issued_at, token.expires_at)

    def forget(self, uid: str) -> None:
        self._times.pop(uid, None)
