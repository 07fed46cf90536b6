"""The admission steps in their order, and those that are a few lines."""

from collections import Counter

import orjson
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import NAMESPACES, PODS, SERVICE_ACCOUNTS
from watchword.apiserver.access.rbac import RbacAuthorizer
from watchword.apiserver.admission.escalation import EscalationGuard
from watchword.apiserver.admission.signing_requests import CertificateAdmission, ConditionTimes
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import Admit, Entropy, Now, Operation, Registry
from watchword.apiserver.serving.write import generated_name

DEFAULT_ACCOUNT = "default"
MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SECONDS = 3607
_AUTOMOUNT = "automountServiceAccountToken"


class ServiceAccountAdmission(Struct, frozen=True):
    """A mutating admission step for new pods."""

    registry: Registry
    entropy: Entropy

    async def __call__(self, operation: Operation) -> None:
        """Set the account, require that it exists, and mount its token unless pod or account opted out."""
        resource = operation.kind.resource
        if operation.verb != "create" or resource != PODS or operation.subresource or operation.new is None:
            return
        spec = operation.new.setdefault("spec", {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self.registry.get(SERVICE_ACCOUNTS, ObjectKey(operation.key.namespace, name))
        if account is None:
            message = (
                f"error looking up service account {operation.key.namespace}/{name}: "
                f"serviceaccount {errors.quote(name)} not found"
            )
            raise errors.forbidden(resource, operation.key.name, message)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        if spec.get(_AUTOMOUNT, account.get(_AUTOMOUNT, True)):  # the pod's setting wins over the account's
            mount_token(spec, generated_name("kube-api-access-", self.entropy))


def mount_token(spec: Object, volume: str) -> None:
    mounted = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts = container.setdefault("volumeMounts", [])
        if not any(mount.get("mountPath") == MOUNT_PATH for mount in mounts):
            mounts.append({"name": volume, "readOnly": True, "mountPath": MOUNT_PATH})
            mounted = True
    if mounted:
        spec.setdefault("volumes", []).append({"name": volume, "projected": _projection()})


def _projection() -> Object:
    field = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [field]}},
        ],
        "defaultMode": 420,
    }


PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})


def admission_steps(
    registry: Registry, authorizer: RbacAuthorizer, policies: Admit, *, now: Now, entropy: Entropy
) -> tuple[tuple[Admit, ...], tuple[Admit, ...]]:
    """Return what completes a write, and what may refuse it afterwards."""
    mutating = (
        deduplicate_owners,
        ServiceAccountAdmission(registry, entropy),
        ConditionTimes(now),
        EscalationGuard(authorizer),  # last: it checks the object that is about to be validated
    )
    return mutating, (protect_namespaces, CertificateAdmission(authorizer), policies)


async def protect_namespaces(operation: Operation) -> None:
    """Refuse to delete a namespace that must always exist; existence of others is the registry's business."""
    resource, name = operation.kind.resource, operation.key.name
    if (operation.verb, resource, operation.subresource) == ("delete", NAMESPACES, "") and name in PROTECTED_NAMESPACES:
        raise errors.forbidden(resource, name, "this namespace may not be deleted")


async def deduplicate_owners(operation: Operation) -> None:
    metadata = (operation.new or {}).get("metadata") or {}
    refs: list[Object] = metadata.get("ownerReferences") or []
    counts = Counter(orjson.dumps(ref, option=orjson.OPT_SORT_KEYS) for ref in refs)
    if len(counts) == len(refs):
        return
    metadata["ownerReferences"] = kept = [orjson.loads(ref) for ref in counts]
    repeated = sorted({str(ref.get("uid")) for ref, times in zip(kept, counts.values(), strict=True) if times > 1})
    operation.warnings.append(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(repeated)}"
    )
