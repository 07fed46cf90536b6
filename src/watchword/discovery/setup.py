"""What a cluster needs so that others can find it: created by `init`, safe to repeat."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from watchword.api.bootstrap import CLUSTER_INFO, KUBE_PUBLIC, KUBECONFIG_KEY, MANAGED_CLUSTER_GROUP, NODE_GROUP
from watchword.api.meta import Manifest, ObjectKey
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CONFIG_MAPS, NAMESPACES, RBAC_GROUP, ROLE_BINDINGS, ROLES
from watchword.discovery.cluster_info import ClusterInfo, write_cluster_info

FIELD_MANAGER = "watchword-init"
CLUSTER_INFO_READERS = ObjectKey(KUBE_PUBLIC, "watchword:cluster-info")
REQUESTERS_BINDING = "watchword:bootstrap-requests"
NODE_BOOTSTRAPPER = "system:node-bootstrapper"  # may create, get, list and watch certificate requests
NODE_APPROVER = "system:certificates.k8s.io:certificatesigningrequests:nodeclient"
NODE_RENEWER = "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient"


class DiscoverySetup(Struct, frozen=True):
    """What is published, and which groups of token holders may request certificates."""

    info: ClusterInfo
    requesters: tuple[str, ...] = (MANAGED_CLUSTER_GROUP,)
    approve_nodes_of: tuple[str, ...] = ()  # groups whose kubelets are approved automatically


def discovery_manifests(setup: DiscoverySetup) -> Iterator[Manifest]:
    yield NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(KUBE_PUBLIC))
    yield CONFIG_MAPS, CONFIG_MAPS.manifest(CLUSTER_INFO, data={KUBECONFIG_KEY: write_cluster_info(setup.info)})
    yield from discovery_bindings(setup.requesters, setup.approve_nodes_of)


def discovery_bindings(
    requesters: Sequence[str] = (MANAGED_CLUSTER_GROUP,), approve_nodes_of: Sequence[str] = (NODE_GROUP,)
) -> Iterator[Manifest]:
    yield from _readers()
    yield _binding(REQUESTERS_BINDING, NODE_BOOTSTRAPPER, requesters)
    if approve_nodes_of:
        yield _binding("watchword:bootstrap-node-approval", NODE_APPROVER, approve_nodes_of)
        yield _binding("watchword:node-renewal-approval", NODE_RENEWER, ("system:nodes",))


def _readers() -> Iterator[Manifest]:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": [CLUSTER_INFO.name], "verbs": ["get"]}
    yield ROLES, ROLES.manifest(CLUSTER_INFO_READERS, rules=[rule])
    yield (
        ROLE_BINDINGS,
        ROLE_BINDINGS.manifest(
            CLUSTER_INFO_READERS,
            roleRef={"apiGroup": RBAC_GROUP, "kind": "Role", "name": CLUSTER_INFO_READERS.name},
            # Authenticated users may read what anonymous ones may: agents refresh over their own connection.
            subjects=[
                {"apiGroup": RBAC_GROUP, "kind": "User", "name": "system:anonymous"},
                {"apiGroup": RBAC_GROUP, "kind": "Group", "name": "system:authenticated"},
            ],
        ),
    )


def _binding(name: str, role: str, groups: Sequence[str]) -> Manifest:
    return CLUSTER_ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS.manifest(
        ObjectKey.cluster(name),
        roleRef={"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": role},
        subjects=[{"apiGroup": RBAC_GROUP, "kind": "Group", "name": group} for group in groups],
    )
