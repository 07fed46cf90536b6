"""Keeps a signature on cluster-info for every token that may vouch for it, and for no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.discovery.own_authorities import OwnAuthorities
from watchword.discovery.signing import SigningVerdict, judge_signatures
from watchword.discovery.token_secret import is_token_secret
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

SETTLE = timedelta(milliseconds=50)


class Announcer(Protocol):
    """Tells people about an object; `runtime.events.EventRecorder` is one."""

    def warning(self, obj: Mapping[str, Any], reason: str, note: str) -> None:
        """Say that something about the object needs attention."""
        ...


@dataclass(frozen=True, slots=True)
class BootstrapSignerReconciler:
    """Reconciles the ConfigMap kube-public/cluster-info; woken by it, by token Secrets and by the cluster's CA."""

    reader: Reader
    client: Client
    clock: Clock
    authorities: OwnAuthorities
    announcer: Announcer | None = None
    settle: timedelta = SETTLE  # a pause in which many changes become one write

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write the difference between the signatures that are there and those that must be."""
        if key != CLUSTER_INFO:
            return Done()
        await asyncio.sleep(self.settle.total_seconds())
        config_map = self.reader.get(CONFIG_MAPS, key)
        if config_map is None:
            return Done()
        secrets = self.reader.list(SECRETS, namespace="kube-system")
        verdict = judge_signatures(
            config_map, secrets, own_pins=self.authorities.pins(self.reader), now=self.clock.now()
        )
        patch = to_patch(config_map, verdict)
        if patch is not None:
            await self.client.patch(CONFIG_MAPS, key, patch)
        if verdict.refusal and verdict.annotation is not None and self.announcer is not None:
            self.announcer.warning(config_map, "SigningRefused", verdict.refusal)
        return Done() if verdict.recheck_in is None else RetryAfter(verdict.recheck_in)


def to_patch(config_map: Object, verdict: SigningVerdict) -> Object | None:
    """Return the merge patch for exactly this revision, None when nothing differs."""
    patch: dict[str, Any] = {"data": dict(verdict.data)} if verdict.data else {}
    metadata: Object = {}
    if verdict.annotation is not None:
        metadata["annotations"] = {ANNOTATION_SIGNING_REFUSED: verdict.annotation or None}
    if not patch and not metadata:
        return None
    # The signatures are for this text and no other: a newer one must refuse them.
    own = {name: config_map["metadata"][name] for name in ("uid", "resourceVersion")}
    return {**patch, "metadata": {**metadata, **own}}


def wake_for_token(secret: Object) -> Iterable[ObjectKey]:
    """Map a token Secret to the one ConfigMap that it concerns."""
    return (CLUSTER_INFO,) if is_token_secret(secret) else ()
