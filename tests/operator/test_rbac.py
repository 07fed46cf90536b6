"""The rights of our processes: few, each with its reason, none that hands on the cluster."""

from __future__ import annotations

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.rbac import RbacRule
from watchword.api.resources import CLUSTER_MANAGERS, CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLES
from watchword.operator.bundles import MANAGER_RIGHTS, operator_bundle
from watchword.operator.cluster_manager import hub_flags, hub_manifests
from watchword.operator.rbac import (
    ACCOUNTS_ROLE,
    AGENT_OWN_RIGHTS,
    AGENT_RIGHTS,
    CLEANER_RIGHTS,
    ELECTION_RIGHTS,
    HUB_INFO_RIGHTS,
    HUB_RIGHTS,
    HUB_TOKENS_RIGHTS,
    OPERATOR_OWN_RIGHTS,
    OPERATOR_RIGHTS,
    OPERATOR_ROLE,
)
from watchword.registration.catalog import CATALOG

EVERY_RIGHT = (
    *AGENT_RIGHTS,
    *AGENT_OWN_RIGHTS,
    *HUB_RIGHTS,
    *HUB_TOKENS_RIGHTS,
    *HUB_INFO_RIGHTS,
    *CLEANER_RIGHTS,
    *OPERATOR_RIGHTS,
    *OPERATOR_OWN_RIGHTS,
    *ELECTION_RIGHTS,
    *MANAGER_RIGHTS,
)


def roles() -> dict[tuple[str, str], list[Object]]:
    return {
        (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj.get("rules", [])
        for resource, obj in operator_bundle()
        if resource in (CLUSTER_ROLES, ROLES)
    }


@pytest.mark.parametrize("right", EVERY_RIGHT, ids=lambda right: f"{right.group} {right.resources[0]}")
def test_every_right_is_narrow_and_has_a_reason(right: RbacRule) -> None:
    assert "*" not in {right.group, *right.resources, *right.verbs}
    assert len(right.why.split()) >= 2
    assert not {"escalate", "*"} & set(right.verbs)
    assert not any(resource.startswith("pods") for resource in right.resources)


def test_no_role_reads_secrets_in_all_namespaces() -> None:
    # The role for accounts is bound only once a hub serves them.
    wide = [rule for key, rows in roles().items() if not key[0] and key[1] != ACCOUNTS_ROLE for rule in rows]
    unnamed = [rule for rule in wide if "secrets" in rule.get("resources", ()) and not rule.get("resourceNames")]

    # Roles that are bound only in namespaces of the agent or the hub; a right to create cannot name objects.
    own = roles()["", "open-cluster-management:watchword:agent-own"]
    made = [rule.rule for server in CATALOG.servers for rule in server.controller_rules if rule.verbs == ("create",)]
    assert [rule for rule in unnamed if rule not in own] == [rule for rule in made if rule in unnamed]


def test_the_operator_changes_workloads_only_in_the_namespaces_it_was_given() -> None:
    everywhere = roles()["", OPERATOR_ROLE]
    changing = [
        rule
        for rule in everywhere
        if {"deployments", "cronjobs", "serviceaccounts", "rolebindings"} & set(rule["resources"])
        and set(rule["verbs"]) - {"get", "list", "watch"}
    ]

    assert changing == []


def test_the_operator_binds_its_own_roles_and_no_others() -> None:
    (binding,) = [rule for rule in roles()["", OPERATOR_ROLE] if "bind" in rule["verbs"]]

    assert set(binding["resourceNames"]) == {
        "admin",
        "open-cluster-management:watchword:accounts",
        "open-cluster-management:watchword:agent",
        "open-cluster-management:watchword:agent-own",
        "open-cluster-management:watchword:cluster-cleaner",
        "open-cluster-management:watchword:hub",
        "open-cluster-management:watchword:grpc-server",
        "open-cluster-management:watchword:grpc-server-controller",
        "open-cluster-management:watchword:grpc-server-signer",
    }


def test_the_role_for_accounts_is_bound_only_where_a_hub_serves_them() -> None:
    gates = [{"feature": "ManagedServiceAccount", "mode": "Enable"}]
    serving = CLUSTER_MANAGERS.manifest(
        ObjectKey.cluster("hub"), spec={"addOnManagerConfiguration": {"featureGates": gates}}
    )
    plain = CLUSTER_MANAGERS.manifest(ObjectKey.cluster("hub"), spec={})

    assert [manager for manager in (plain, serving) if ACCOUNTS_ROLE in bound_roles(manager)] == [serving]
    assert "--feature-gates=ManagedServiceAccount=true" in hub_flags(serving)
    bound = [obj["roleRef"]["name"] for resource, obj in operator_bundle() if resource is CLUSTER_ROLE_BINDINGS]
    assert ACCOUNTS_ROLE not in bound


def bound_roles(manager: Object) -> list[str]:
    rows = hub_manifests(manager)
    return [obj["roleRef"]["name"] for resource, obj in rows if resource is CLUSTER_ROLE_BINDINGS]


def test_the_cleaner_of_left_over_clusters_may_do_nothing_else() -> None:
    (rule,) = roles()["", "open-cluster-management:watchword:cluster-cleaner"]

    assert rule == {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclusters"],
        "verbs": ["list", "delete"],
    }
