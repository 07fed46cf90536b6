"""Holds bootstrap tokens to the clusters they were made for, and to the number of times they may be used."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.bootstrap import ANNOTATION_USED_BY, USER_PREFIX, token_secret_key
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.resources import SECRETS
from watchword.discovery.token_limits import BootstrapTokenLimits, validate_token_use
from watchword.kube.client import Client
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.reconcile import Reader


class BootstrapTokenValidator(Struct, frozen=True):
    """Decides for one requester and one cluster, and keeps the record of uses on the token itself."""

    reader: Reader
    client: Client

    async def __call__(self, requester: str, cluster: str) -> str | None:
        """Return why this requester may not register the cluster, or None after noting that it does."""
        key = token_secret_key_of(requester)
        if key is None:
            return None  # not a bootstrap token: the allow-list alone decides
        return await record_token_use(self.client, self.reader.get(SECRETS, key), requester, cluster)


def token_secret_key_of(requester: str) -> ObjectKey | None:
    """Return where the token lies by which a requester authenticated; None when it was no bootstrap token."""
    token = requester.removeprefix(USER_PREFIX)
    return None if token == requester else token_secret_key(token)


async def record_token_use(
    client: Client, secret: Object | None, requester: str, cluster: str, *, dry_run: bool = False
) -> str | None:
    """Return why the token may not bring in the cluster, or None after noting that it does.

    The use is written down before it happens: a crash in between costs a use, never grants one.
    """
    if secret is None:
        return f"the token {requester.removeprefix(USER_PREFIX)} is gone: create a new one"
    used = clusters_registered_with(secret)
    limits = BootstrapTokenLimits.from_annotations(annotations_of(secret))
    objection = validate_token_use(limits, cluster, other_clusters=len(used - {cluster}))
    if objection:
        return objection
    if limits.maximum_uses is not None and cluster not in used:
        annotations = {ANNOTATION_USED_BY: ",".join(sorted(used | {cluster}))}
        patch = with_preconditions(secret, {"metadata": {"annotations": annotations}})
        await client.patch(SECRETS, ObjectKey.of(secret), patch, dry_run=dry_run)
    return None


def clusters_registered_with(secret: Object) -> set[str]:
    """Return the clusters that a token has brought in."""
    return set(filter(None, annotations_of(secret).get(ANNOTATION_USED_BY, "").split(",")))
