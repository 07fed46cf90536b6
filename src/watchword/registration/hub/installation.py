"""Applies the CRDs, roles and admission policies of a hub."""

from collections.abc import Iterable

from watchword.api import names, resources
from watchword.api.admission_policy import PolicyName, bound_policy, is_as_written, text_literal
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.crds import HUB_CRDS
from watchword.api.limits import LONGEST_AGENT_TOKEN_SECONDS, SHORTEST_TOKEN_LIFETIME
from watchword.api.meta import Manifest, Object, ObjectKey, Resource
from watchword.credentials.certificates.requests import GRPC_SERVER_USER
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.request_sender import decode
from watchword.registration.hub.cluster_rbac import COMMON_ROLES, rule
from watchword.registration.hub.cluster_sets import BUILT_IN_SETS, DEFAULT_SET
from watchword.runtime.manifests import apply_manifests

_ENTITLED = (
    f"authorizer.group('{names.REGISTER_GROUP}').resource('managedclusters').subresource('accept')"
    ".name(object.metadata.name).check('update').allowed()"
)
_ACCEPTANCE_UNCHANGED = (
    "!(has(object.spec.hubAcceptsClient) && object.spec.hubAcceptsClient)"
    " || (oldObject != null && has(oldObject.spec.hubAcceptsClient) && oldObject.spec.hubAcceptsClient)"
)


def _value_of(obj: str, field: str, name: str) -> str:
    values = f"{obj}.metadata.{field}"
    return f"(has({values}) && '{name}' in {values} ? {values}['{name}'] : '')"


def _is_kept(finalizer: str) -> str:
    held, kept = "oldObject.metadata.finalizers", "object.metadata.finalizers"
    return f"(!(has({held}) && '{finalizer}' in {held}) || (has({kept}) && '{finalizer}' in {kept}))"


_ANNOTATIONS_UNCHANGED = " && ".join(
    f"{_value_of('object', 'annotations', name)} == "
    f"(oldObject == null ? '' : {_value_of('oldObject', 'annotations', name)})"
    for name in names.HUB_ANNOTATIONS
)
_FINALIZERS_KEPT = f"(oldObject == null || ({' && '.join(map(_is_kept, names.HUB_FINALIZERS))}))"


def _set_of(obj: str) -> str:
    return _value_of(obj, "labels", names.Label.CLUSTER_SET)


def _may_join(obj: str) -> str:
    named = f"authorizer.group('{resources.MANAGED_CLUSTERS.group}').resource('managedclustersets').subresource('join')"
    return f"({_set_of(obj)} == '' || {named}.name({_set_of(obj)}).check('create').allowed())"


_NEW_SET = f"({_set_of('object')} == '{DEFAULT_SET}' || {_may_join('object')})"
_MOVED_SET = f"({_set_of('oldObject')} == {_set_of('object')} || ({_may_join('oldObject')} && {_may_join('object')}))"
_MAY_CHANGE_SET = f"oldObject == null ? {_NEW_SET} : {_MOVED_SET}"


_BOUND_SET = "(has({0}.spec.clusterSet) ? {0}.spec.clusterSet : '')"
_MAY_BIND = (
    f"authorizer.group('{resources.MANAGED_CLUSTERS.group}').resource('managedclustersets').subresource('bind')"
    f".name({_BOUND_SET.format('object')}).check('create').allowed()"
)
_BINDING_UNCHANGED = f"(oldObject != null && {_BOUND_SET.format('oldObject')} == {_BOUND_SET.format('object')})"

_AGENT_USERS = [
    names.service_account_user(names.BOOTSTRAP_NAMESPACE, names.BOOTSTRAP_SERVICE_ACCOUNT),
    GRPC_SERVER_USER,
]
IS_AGENT = (
    f"request.userInfo.username in {_AGENT_USERS} || request.userInfo.groups.exists(group, "
    + " || ".join(f"group.startsWith('{prefix}')" for prefix in (*names.AGENT_GROUP_PREFIXES, MANAGED_CLUSTER_GROUP))
    + ")"
)
"""Whether an agent asks, also before it is accepted or through the gRPC server."""


def _metadata_of(name: str, empty: str, *, old: bool = False) -> str:
    obj = "oldObject" if old else "object"
    is_absent = f"oldObject == null || !has(oldObject.metadata.{name})" if old else f"!has(object.metadata.{name})"
    return f"({is_absent} ? {empty} : {obj}.metadata.{name})"


def _adds_none(name: str, is_same: str) -> str:
    """Return that no item is new: the garbage collector and the hub take items away."""
    present, before = _metadata_of(name, "[]"), _metadata_of(name, "[]", old=True)
    return f"{present}.all(item, {before}.exists(known, {is_same}))"


_LABELS, _OLD_LABELS = _metadata_of("labels", "{}"), _metadata_of("labels", "{}", old=True)
_OTHER_LABELS_KEPT = (
    f"(oldObject == null || ({_LABELS}.all(key, key == '{names.Label.CLUSTER_SET}'"
    f" || (key in {_OLD_LABELS} && {_OLD_LABELS}[key] == {_LABELS}[key]))"
    f" && {_OLD_LABELS}.all(key, key == '{names.Label.CLUSTER_SET}' || key in {_LABELS})))"
)

_VALIDATIONS = {
    f"oldObject != null || !(object.metadata.name in {sorted(names.RESERVED_CLUSTER_NAMES)})": (
        "this cluster name is reserved: it names a namespace, group or role of the hub"
    ),
    "oldObject != null || object.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$')": (
        "the name of a cluster is a DNS label of at most 63 characters: it names a namespace"
    ),
    f"{_ACCEPTANCE_UNCHANGED} || {_ENTITLED}": (
        "setting hubAcceptsClient needs the right to update managedclusters/accept"
    ),
    f"({_ANNOTATIONS_UNCHANGED} && {_FINALIZERS_KEPT}) || {_ENTITLED}": (
        "what the hub has noted needs the right to update managedclusters/accept"
    ),
    f"!({IS_AGENT}) || ({_adds_none('ownerReferences', 'item.uid == known.uid')}"
    f" && {_adds_none('finalizers', 'item == known')}) || {_ENTITLED}": (
        "an agent may not give its cluster owners or finalizers: that needs the right to update managedclusters/accept"
    ),
    f"!({IS_AGENT}) || {_OTHER_LABELS_KEPT} || {_ENTITLED}": (
        "an agent may not change the labels of its cluster, which select it for sets: "
        "that needs the right to update managedclusters/accept"
    ),
    _MAY_CHANGE_SET: "entering or leaving a set needs the right to create managedclustersets/join",
}


def policy_manifests() -> tuple[Manifest, Manifest]:
    """Return the admission policy about ManagedClusters, and its binding."""
    return bound_policy(
        PolicyName.ACCEPTANCE, (resources.MANAGED_CLUSTERS.group, resources.MANAGED_CLUSTERS.plural), _VALIDATIONS
    )


def set_binding_policy_manifests() -> tuple[Manifest, Manifest]:
    """Return the admission policy about ManagedClusterSetBindings, and its binding."""
    message = "using a set in a namespace needs the right to create managedclustersets/bind"
    about = (resources.MANAGED_CLUSTER_SET_BINDINGS.group, resources.MANAGED_CLUSTER_SET_BINDINGS.plural)
    return bound_policy(PolicyName.SET_BINDING, about, {f"{_BINDING_UNCHANGED} || {_MAY_BIND}": message})


UNGUARDED = (
    "the API server lets every user who may create a ManagedCluster accept it: "
    "install the admission policy with `watchword init` and try again"
)
"""What to do when the server does not refuse."""


def is_installed(present: Iterable[Object]) -> bool:
    """Whether the policy about ManagedClusters and its binding are stored as they should be."""
    found = {str(each.get("kind")): each for each in present}
    return all(
        (stored := found.get(resource.kind)) is not None and is_as_written(stored, wanted)
        for resource, wanted in policy_manifests()
    )


FIELD_MANAGER = "watchword-hub"


async def install_agent_token_policy(client: Client) -> None:
    """Install the admission policy, unless the server serves no such policies."""
    await apply_manifests(client, agent_token_policy_manifests(await own_audiences(client)), manager=FIELD_MANAGER)


async def own_audiences(client: Client) -> tuple[str, ...]:
    """Return the server's default audiences; empty when it does not reveal them.

    Only the server knows them: they are in its response to any token request, whose token is discarded here.
    """
    account = ObjectKey(names.BOOTSTRAP_NAMESPACE, names.BOOTSTRAP_SERVICE_ACCOUNT)
    body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["spec"] = {"expirationSeconds": int(SHORTEST_TOKEN_LIFETIME.total_seconds()), "audiences": []}
    try:
        path = resources.SERVICE_ACCOUNTS.path(account, subresource="token")
        answer = decode(await client.request("POST", path, body=body))
    except KubeError:
        return ()
    return tuple(str(name) for name in (answer.get("spec") or {}).get("audiences") or ())


def agent_token_policy_manifests(audiences: tuple[str, ...]) -> tuple[Manifest, Manifest]:
    """Return the policy and its binding; without known audiences they limit lifetimes and accounts alone.

    Agents may request tokens of their add-ons' accounts, and a TokenRequest lets the requester choose audience and
    lifetime. A token for another audience would authenticate the add-on at other services that trust this hub's issuer,
    and one without expiry would outlive every rotation. The gRPC server requests them on behalf of agents: RBAC cannot
    limit it to accounts of add-ons, which have names of their own on every cluster.
    """
    seconds = "object.spec.expirationSeconds"
    agents = " || ".join(f"group.startsWith('{prefix}')" for prefix in names.AGENT_GROUP_PREFIXES)
    server = f"request.userInfo.username == '{GRPC_SERVER_USER}'"
    labels = "namespaceObject.metadata.labels"
    is_of_cluster = f"has({labels}) && '{names.Label.CLUSTER_NAME}' in {labels}"
    is_of_addon = f"{labels}['{names.Label.CLUSTER_NAME}'] == request.namespace && request.name.endsWith('-agent')"
    rules = {
        f"!has({seconds}) || {seconds} <= {LONGEST_AGENT_TOKEN_SECONDS}": (
            f"agents may request tokens of at most {LONGEST_AGENT_TOKEN_SECONDS} seconds"
        ),
        f"!({server}) || ({is_of_cluster} && {is_of_addon})": (
            "the gRPC server may request tokens of add-ons' accounts in the namespaces of clusters alone"
        ),
    }
    if audiences:
        known = ", ".join(map(text_literal, audiences))
        rules[f"!has(object.spec.audiences) || object.spec.audiences.all(name, name in [{known}])"] = (
            "agents may request tokens for this hub alone: name no audience"
        )
    whom = f"{server} || request.userInfo.groups.exists(group, {agents})"
    about = ("", "serviceaccounts/token")
    return bound_policy(PolicyName.AGENT_TOKENS, about, rules, operations=("CREATE",), only_for=whom)


MAX_REQUEST_BYTES = 16 * 1024  # four times that of an RSA key of 4096 bits
MAX_TEXTS, MAX_TEXT_BYTES = 16, 4096  # labels and annotations, and each annotation
_KUBELET_SIGNERS = ["kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving"]
_IS_NODE = (
    f"object.spec.signerName in {_KUBELET_SIGNERS} && request.userInfo.groups.exists(group, "
    f"group.startsWith('system:bootstrappers:') && group != '{MANAGED_CLUSTER_GROUP}')"
)


def request_policy_manifests() -> tuple[Manifest, Manifest]:
    """Return the policy that bounds each request of an agent: a bootstrap token suffices to create requests."""
    labels, notes = "object.metadata.labels", "object.metadata.annotations"
    rules = {
        f"size(object.spec.request) <= {MAX_REQUEST_BYTES}": (
            f"the certificate request of an agent has at most {MAX_REQUEST_BYTES} bytes"
        ),
        f"(has({labels}) && '{names.Label.CLUSTER_NAME}' in {labels}) || ({_IS_NODE})": (
            f"the certificate request of an agent carries the label {names.Label.CLUSTER_NAME}"
        ),
        f"(!has({labels}) || size({labels}) <= {MAX_TEXTS}) && (!has({notes}) || (size({notes}) <= "
        f"{MAX_TEXTS} && {notes}.all(name, size({notes}[name]) <= {MAX_TEXT_BYTES})))": (
            f"the certificate request of an agent has at most {MAX_TEXTS} labels and {MAX_TEXTS} annotations"
            f" of {MAX_TEXT_BYTES} bytes"
        ),
        "!has(object.metadata.finalizers) && !has(object.metadata.ownerReferences)": (
            "the certificate request of an agent has no finalizers and no owners"
        ),
    }
    about = (resources.CERTIFICATE_SIGNING_REQUESTS.group, resources.CERTIFICATE_SIGNING_REQUESTS.plural)
    return bound_policy(PolicyName.REQUESTS, about, rules, operations=("CREATE",), only_for=IS_AGENT)


EXECUTOR_GATE = "NilExecutorValidating"  # demands an executor of every work

_SUBJECT = "object.spec.executor.subject"
_ACCOUNT = f"{_SUBJECT}.serviceAccount"
_IS_NAMED = f"has(object.spec) && has(object.spec.executor) && has({_SUBJECT})"
_IS_WHOLE = f"has({_ACCOUNT}) && {_ACCOUNT}.namespace != '' && {_ACCOUNT}.name != ''"
# Also manifests: a user who may only update works would otherwise act as the executor that another user named.
_IS_UNCHANGED = "(oldObject != null && has(object.spec) && has(oldObject.spec) && object.spec == oldObject.spec)"


def _may_execute_as(name: str) -> str:
    works = f"authorizer.group('{resources.MANIFEST_WORKS.group}').resource('{resources.MANIFEST_WORKS.plural}')"
    return f"{works}.namespace(request.namespace).name({name}).check('execute-as').allowed()"


def executor_policy_manifests(*, is_demanded: bool = False) -> tuple[Manifest, Manifest]:
    """Return the policy and its binding; `is_demanded` makes a work without an executor need a right as well."""
    name = f"'system:serviceaccount:' + {_ACCOUNT}.namespace + ':' + {_ACCOUNT}.name"
    rules = {
        f"{_IS_UNCHANGED} || !({_IS_NAMED}) || ({_IS_WHOLE} && {_may_execute_as(name)})": (
            "the executor of a work needs the right to execute-as manifestworks"
            " with the name system:serviceaccount:<namespace>:<name>, in the namespace of the work"
        )
    }
    if is_demanded:
        allowed = _may_execute_as(f"'{names.UNNAMED_EXECUTOR}'")
        rules[f"{_IS_UNCHANGED} || ({_IS_NAMED}) || {allowed}"] = (
            "this hub demands an executor: name one in spec.executor, or get the right to execute-as manifestworks"
            f" with the name {names.UNNAMED_EXECUTOR}"
        )
    return bound_policy(PolicyName.EXECUTOR, (resources.MANIFEST_WORKS.group, resources.MANIFEST_WORKS.plural), rules)


BOOTSTRAP_ROLE = "open-cluster-management:bootstrap"

BOOTSTRAP_RULES = [
    rule("", "configmaps", ["get"], ["cluster-info", "kube-root-ca.crt"]),
    rule("certificates.k8s.io", "certificatesigningrequests", ["create", "get", "list", "watch"]),
    rule(names.CLUSTER_GROUP, "managedclusters", ["create", "get", "list", "watch"]),
    rule(names.CLUSTER_GROUP, "managedclustersets/join", ["create"], [DEFAULT_SET]),
]
"""What a joining cluster may do before it is accepted. The set of a cluster decides who works with it, so a holder of
a token may not choose it: that needs an authenticated user with the right to do so."""


def manifests(*, demands_executor: bool = False) -> Iterable[tuple[Resource, Object]]:
    for definition in HUB_CRDS:
        yield resources.CUSTOM_RESOURCE_DEFINITIONS, definition
    for name in (names.HUB_NAMESPACE, names.BOOTSTRAP_NAMESPACE):
        yield resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(name))
    account = ObjectKey(names.BOOTSTRAP_NAMESPACE, names.BOOTSTRAP_SERVICE_ACCOUNT)
    yield resources.SERVICE_ACCOUNTS, resources.SERVICE_ACCOUNTS.manifest(account)
    for name, rules in {**COMMON_ROLES, BOOTSTRAP_ROLE: BOOTSTRAP_RULES}.items():
        yield resources.CLUSTER_ROLES, resources.CLUSTER_ROLES.manifest(ObjectKey.cluster(name), rules=rules)
    yield from _bootstrap_bindings(account)
    sets = resources.MANAGED_CLUSTER_SETS
    yield from ((sets, sets.manifest(ObjectKey.cluster(name), spec=spec)) for name, spec in BUILT_IN_SETS.items())
    yield from policy_manifests()
    yield from set_binding_policy_manifests()
    yield from request_policy_manifests()
    yield from executor_policy_manifests(is_demanded=demands_executor)


def _bootstrap_bindings(account: ObjectKey) -> Iterable[tuple[Resource, Object]]:
    subjects: dict[str, Object] = {
        "agent-registration": {"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name},
        "managedcluster": {"kind": "Group", "apiGroup": resources.RBAC_GROUP, "name": MANAGED_CLUSTER_GROUP},
    }
    reference = {"apiGroup": resources.RBAC_GROUP, "kind": "ClusterRole", "name": BOOTSTRAP_ROLE}
    bindings = resources.CLUSTER_ROLE_BINDINGS
    for name, subject in subjects.items():
        key = ObjectKey.cluster(f"{BOOTSTRAP_ROLE}:{name}")
        yield bindings, bindings.manifest(key, roleRef=reference, subjects=[subject])


async def install(client: Client, *, demands_executor: bool = False) -> None:
    """Apply every object that differs from what is wanted."""
    await apply_manifests(client, manifests(demands_executor=demands_executor), manager=FIELD_MANAGER)
