"""Signs cluster-info for every token that may sign, and for no other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Protocol

from msgspec import Struct

from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.discovery.cluster_authorities import ClusterAuthorities
from watchword.discovery.cluster_info_signatures import SignatureDecision, decide_signatures
from watchword.discovery.token_secret import is_token_secret
from watchword.kube.client import Client
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

SETTLE = timedelta(milliseconds=50)


class WarningRecorder(Protocol):
    """Records events about an object; `runtime.event_recorder.EventRecorder` is one."""

    def warning(self, obj: Mapping[str, Any], reason: str, note: str) -> None:
        """Report that something about the object needs attention."""
        ...


class BootstrapSignerReconciler(Struct, frozen=True):
    """Reconciles the ConfigMap kube-public/cluster-info; triggered by it, by token Secrets and by the cluster's CA."""

    reader: Reader
    client: Client
    clock: Clock
    authorities: ClusterAuthorities
    warning_recorder: WarningRecorder | None = None
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
        decision = decide_signatures(
            config_map, secrets, own_pins=self.authorities.pins(self.reader), now=self.clock.now()
        )
        patch = build_signature_patch(config_map, decision)
        if patch is not None:
            await self.client.patch(CONFIG_MAPS, key, patch)
        if decision.refusal and decision.annotation is not None and self.warning_recorder is not None:
            self.warning_recorder.warning(config_map, "SigningRefused", decision.refusal)
        return Done() if decision.recheck_in is None else RetryAfter(decision.recheck_in)


def build_signature_patch(config_map: Object, decision: SignatureDecision) -> Object | None:
    """Return the merge patch for exactly this revision, None when nothing differs."""
    patch: dict[str, Any] = {"data": dict(decision.data)} if decision.data else {}
    metadata: Object = {}
    if decision.annotation is not None:
        metadata["annotations"] = {ANNOTATION_SIGNING_REFUSED: decision.annotation or None}
    if not patch and not metadata:
        return None
    # The signatures are for this text and no other: a newer one must refuse them.
    own = {name: config_map["metadata"][name] for name in ("uid", "resourceVersion")}
    return {**patch, "metadata": {**metadata, **own}}


def cluster_info_for_token(secret: Object) -> Iterable[ObjectKey]:
    """Map a token Secret to the one ConfigMap that it concerns."""
    return (CLUSTER_INFO,) if is_token_secret(secret) else ()
