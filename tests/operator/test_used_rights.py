"""Every right that our processes have is used: by a request on record, or for a reason that is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from tools.used_rights import Right, read_record
from watchword.api.meta import Object
from watchword.api.names import ADDON_GROUP, CLUSTER_GROUP, WORK_GROUP
from watchword.api.rbac import RbacRule
from watchword.api.resources import RBAC_GROUP
from watchword.operator import rbac
from watchword.operator.bundles import MANAGER_RIGHTS
from watchword.operator.pull_secret_manifests import PULL_SECRETS_OWN_RIGHTS, PULL_SECRETS_RIGHTS
from watchword.registration.catalog import CATALOG
from watchword.registration.hub.cluster_rbac import COMMON_ROLES, accepted_rules
from watchword.registration.hub.installation import BOOTSTRAP_RULES

GRANTED: dict[str, Sequence[RbacRule]] = {
    "agent": (*rbac.AGENT_RIGHTS, *rbac.AGENT_OWN_RIGHTS),
    "hub": (*rbac.HUB_RIGHTS, *rbac.HUB_TOKENS_RIGHTS, *rbac.HUB_INFO_RIGHTS),
    "accounts": MANAGER_RIGHTS,
    "cleaner": rbac.CLEANER_RIGHTS,
    "grpc-server": next(server.rules for server in CATALOG.servers if server.name == "grpc-server"),
    "pull-secrets": (*PULL_SECRETS_RIGHTS, *PULL_SECRETS_OWN_RIGHTS),
    "operator": (*rbac.OPERATOR_RIGHTS, *rbac.OPERATOR_OWN_RIGHTS, *rbac.ELECTION_RIGHTS),
}
HANDED_ON = (*BOOTSTRAP_RULES, *accepted_rules("c"), *(rule for rules in COMMON_ROLES.values() for rule in rules))
"""What the hub gives to clusters, and so must hold itself."""

CHECKED = frozenset({"accept", "join", "execute-as", "bind", "approve", "renew", "subscribe", "impersonate"})
"""Verbs and subresources that the API server or an admission policy checks beside a request for something else."""


def rights_in(rules: Iterable[Object]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


CORE, ADMISSION, KINDS, LEASES = "", "admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io"
EVENTS_GROUP = "events.k8s.io"
_REASONS: dict[str, tuple[tuple[str, str, str], ...]] = {  # group, resources and verbs, separated by blanks
    "made, or made right, only where they are missing or differ": (
        (ADMISSION, "validatingadmissionpolicies validatingadmissionpolicybindings", "get create patch"),
        (KINDS, "customresourcedefinitions", "get create patch"),
        (CLUSTER_GROUP, "managedclustersets", "create patch"),
        (ADDON_GROUP, "clustermanagementaddons", "get create patch"),
        (CORE, "services", "create patch delete"),
        (CORE, "configmaps", "create patch"),
        (CORE, "namespaces serviceaccounts", "patch"),
        (RBAC_GROUP, "roles rolebindings clusterrolebindings", "patch"),
        (RBAC_GROUP, "roles", "delete"),
        (WORK_GROUP, "manifestworks", "patch delete"),
        (ADDON_GROUP, "managedclusteraddons", "create patch"),
    ),
    "one replica runs in the suites, so that none is elected": ((LEASES, "leases", "get create update"),),
    "done after hours or days, in the suites with virtual time": (
        (CORE, "secrets", "patch delete"),
        (LEASES, "leases", "delete"),
        (CLUSTER_GROUP, "managedclusters", "delete"),
        (EVENTS_GROUP, "events", "patch"),
    ),
    "given to the agents of managed service accounts, and to those of add-ons": (
        (CORE, "secrets", "update"),
        (CORE, "serviceaccounts/token", "create"),
        ("authentication.open-cluster-management.io", "managedserviceaccounts/status", "get patch update"),
        ("proxy.open-cluster-management.io", "managedserviceaccounts/status", "get patch update"),
    ),
    "for kinds that few hubs have, in the suites on the embedded control plane": (
        (CLUSTER_GROUP, "placementdecisions", "get list watch"),
        (CLUSTER_GROUP, "managedclustersetbindings/status", "patch"),
        (ADDON_GROUP, "clustermanagementaddons/status", "patch"),
        ("authentication.open-cluster-management.io", "managedserviceaccounts", "delete"),
        ("certificates.k8s.io", "certificatesigningrequests", "delete"),
        ("authorization.k8s.io", "subjectaccessreviews", "create"),
    ),
}
RESERVED: dict[Right, str] = {
    (group, resource, verb): reason
    for reason, rows in _REASONS.items()
    for group, resources, verbs in rows
    for resource in resources.split()
    for verb in verbs.split()
}
"""Rights for what the suites on a real API server do not do, each with its reason."""


def is_explained(right: Right, used: set[Right]) -> bool:
    group, resource, verb = right
    if verb in ("get", "list") and (group, resource, "watch") in used:
        return True  # servers without streaming lists are listed, and conflicts are read again
    return bool(CHECKED & {verb, resource.partition("/")[2]}) or right in RESERVED


@pytest.mark.parametrize("process", GRANTED)
def test_every_right_is_used_by_a_request_or_for_a_named_reason(process: str) -> None:
    used = read_record()[process] | (rights_in(HANDED_ON) if process == "hub" else set())

    unused = rights_in(right.rule for right in GRANTED[process]) - used

    assert sorted(right for right in unused if not is_explained(right, used)) == []


def test_no_reason_is_left_for_a_right_that_is_used_or_gone() -> None:
    granted = rights_in(right.rule for rights in GRANTED.values() for right in rights)

    assert [right for right in RESERVED if right not in granted] == []
