"""Image pull secrets on the first cluster of a fleet of this machine, deployed as on any cluster."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from watchword.admin.wait import ObjectWaiter
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.pull_secrets import ANNOTATION_PULL_SECRET
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.discovery.polling import Progress
from watchword.kube.errors import AlreadyExists
from watchword.local.control_plane import LocalControlPlane
from watchword.operator.pull_secret_manifests import PullSecretBundleOptions, pull_secret_bundle
from watchword.operator.rendering import PodSettings
from watchword.pullsecrets.inventory import PullSecretHealth, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret, project_pull_secret
from watchword.runtime.clock import Clock

REGISTRY, AUDIENCE = "registry.example:5000", "registry.example"
ACCOUNT = ObjectKey("default", "default")
_ADVICE = "see `kubectl -n watchword-pull-secrets get pods`"


async def start_pull_secrets(member: LocalControlPlane) -> None:
    """Deploy the controllers as `watchword manifests pull-secrets` prints them."""
    options = PullSecretBundleOptions(registries=(REGISTRY,), audience=AUDIENCE, pods=PodSettings(replicas=1))
    for resource, manifest in pull_secret_bundle(options):
        with suppress(AlreadyExists):  # a fleet that was up before
            await member.client.create(resource, manifest)


async def await_pull_secret(member: LocalControlPlane, clock: Clock, progress: Progress) -> str:
    """Wait until an account has a pull secret with a valid token, and return the name of the secret."""
    waiter = ObjectWaiter(member.client, progress=progress)
    account = await waiter.until(SERVICE_ACCOUNTS, ACCOUNT, validate_reference, advice=_ADVICE)
    name = annotations_of(account)[ANNOTATION_PULL_SECRET]

    def validate(secret: Object | None) -> str:
        return validate_token(secret, now=clock.now())

    await waiter.until(SECRETS, ObjectKey(ACCOUNT.namespace, name), validate, advice=_ADVICE)
    return name


def validate_reference(account: Object | None) -> str:
    """Return what is missing until an account names its pull secret; empty when it does."""
    named = annotations_of(account or {}).get(ANNOTATION_PULL_SECRET)
    return "" if named else f"ServiceAccount {ACCOUNT} waits for its pull secret"


def validate_token(secret: Object | None, *, now: datetime) -> str:
    """Return what is missing until a pull secret holds a valid token; empty when it does."""
    projected = None if secret is None else project_pull_secret(secret)
    found = None if projected is None else PullSecret.read(projected)
    is_healthy = found is not None and pull_secret_row(found, now=now).health is PullSecretHealth.HEALTHY
    return "" if is_healthy else f"the pull secret of ServiceAccount {ACCOUNT} waits for a token"
