"""Bounds the certificate requests that one requester can have stored on the hub, in size and in number.

A bootstrap token suffices to create requests, and an API server keeps them for hours. An admission policy bounds each
request of an agent, and the hub deletes what is undecided beyond the budget of its requester, the newest first.
"""

from heapq import nsmallest

from msgspec import Struct, field

from watchword.api.admission_policy import PolicyName, bound_policy
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.credentials.certificates.requests import is_pending, requester_of
from watchword.kube.client import Client
from watchword.registration.hub.acceptance_policy import IS_AGENT
from watchword.runtime.cache import Cache
from watchword.runtime.ensure import delete_object
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import ControllerSpec, Done, Outcome

MAX_PENDING_REQUESTS = 1000  # of one requester: clusters that wait for acceptance may share a bootstrap token
MAX_REQUEST_BYTES = 16 * 1024  # four times that of an RSA key of 4096 bits
MAX_TEXTS, MAX_TEXT_BYTES = 16, 4096  # labels and annotations, and each annotation
REQUESTER_INDEX = "requester"

_KUBELET_SIGNERS = ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"]
_IS_NODE = (
    f"object.spec.signerName in {_KUBELET_SIGNERS} && request.userInfo.groups.exists(group, "
    f"group.startsWith('system:bootstrappers:') && group != '{MANAGED_CLUSTER_GROUP}')"
)
_LABELS, _ANNOTATIONS = "object.metadata.labels", "object.metadata.annotations"
_VALIDATIONS = {
    f"size(object.spec.request) <= {MAX_REQUEST_BYTES}": (
        f"the certificate request of an agent has at most {MAX_REQUEST_BYTES} bytes"
    ),
    f"(has({_LABELS}) && '{Label.CLUSTER_NAME}' in {_LABELS}) || ({_IS_NODE})": (
        f"the certificate request of an agent carries the label {Label.CLUSTER_NAME}"
    ),
    f"(!has({_LABELS}) || size({_LABELS}) <= {MAX_TEXTS}) && (!has({_ANNOTATIONS}) || (size({_ANNOTATIONS}) <= "
    f"{MAX_TEXTS} && {_ANNOTATIONS}.all(name, size({_ANNOTATIONS}[name]) <= {MAX_TEXT_BYTES})))": (
        f"the certificate request of an agent has at most {MAX_TEXTS} labels and {MAX_TEXTS} annotations"
        f" of {MAX_TEXT_BYTES} bytes"
    ),
    "!has(object.metadata.finalizers) && !has(object.metadata.ownerReferences)": (
        "the certificate request of an agent has no finalizers and no owners"
    ),
}


def request_policy_manifests() -> tuple[Manifest, Manifest]:
    about = (CERTIFICATE_SIGNING_REQUESTS.group, CERTIFICATE_SIGNING_REQUESTS.plural)
    return bound_policy(PolicyName.REQUESTS, about, _VALIDATIONS, operations=("CREATE",), only_for=IS_AGENT)


def request_budget_controller(
    cache: Cache, client: Client, events: EventRecorder, *, most: int = MAX_PENDING_REQUESTS
) -> ControllerSpec:
    cache.index(CERTIFICATE_SIGNING_REQUESTS, REQUESTER_INDEX, _index_pending)
    budget = RequestBudgetReconciler(cache, client, events, most)
    return ControllerSpec("request-budget", CERTIFICATE_SIGNING_REQUESTS, budget, workers=2, concerns=is_pending)


def _index_pending(csr: Object) -> list[str]:
    return [requester_of(csr).user] if is_pending(csr) else []


class _Budget(Struct, frozen=True):
    """What a requester with too many undecided requests keeps: the oldest of them."""

    oldest: Object
    newest: tuple[str, str]


class RequestBudgetReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest: deletes an undecided one that its requester has too many of."""

    cache: Cache
    client: Client
    events: EventRecorder
    most: int
    kept: dict[str, _Budget] = field(default_factory=dict)  # of requesters above the budget: measured once for a flood

    async def reconcile(self, key: ObjectKey) -> Outcome:
        csr = self.cache.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or not is_pending(csr):
            return Done()
        user = requester_of(csr).user
        if self.cache.index_count(CERTIFICATE_SIGNING_REQUESTS, REQUESTER_INDEX, user) <= self.most:
            self.kept.pop(user, None)
            return Done()
        kept = self.kept.get(user) or self.kept.setdefault(user, self._measure(user))
        if _age(csr) <= kept.newest:
            return Done()
        await delete_object(self.client, CERTIFICATE_SIGNING_REQUESTS, csr)
        # About the oldest request, so that a flood is one event that counts.
        note = f"{user} has {self.most} undecided certificate requests: further ones are deleted"
        self.events.warning(kept.oldest, "TooManyRequests", note)
        return Done()

    def _measure(self, user: str) -> _Budget:
        pending = self.cache.by_index(CERTIFICATE_SIGNING_REQUESTS, REQUESTER_INDEX, user)
        oldest = nsmallest(self.most, pending, key=_age)
        return _Budget(oldest[0], _age(oldest[-1]))


def _age(csr: Object) -> tuple[str, str]:
    return csr["metadata"]["creationTimestamp"], csr["metadata"]["name"]
