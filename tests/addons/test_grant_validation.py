"""The rights that no add-on gets unless an administrator allows them by name."""

from __future__ import annotations

import pytest

from watchword.addons.hub.grants import validate_grant_namespace, validate_rules
from watchword.addons.rbac import config_syncer, read_only_reporter, status_writer
from watchword.api.meta import Object

RBAC = "rbac.authorization.k8s.io"
ADDON, WORK = "addon.open-cluster-management.io", "work.open-cluster-management.io"
READ = ("get", "list", "watch")


def a_rule(group: str, resource: str, *verbs: str, names: tuple[str, ...] = ()) -> Object:
    row: Object = {"apiGroups": [group], "resources": [resource], "verbs": list(verbs)}
    return {**row, "resourceNames": list(names)} if names else row


DANGEROUS = {
    "everything": a_rule("*", "*", "*"),
    "every verb": a_rule("", "configmaps", "*"),
    "every resource": a_rule("", "*", "get"),
    "every group": a_rule("*", "configmaps", "get"),
    "every subresource": a_rule("", "pods/*", "get"),
    "every status": a_rule("apps", "*/status", "patch"),
    "escalate roles": a_rule(RBAC, "roles", "escalate"),
    "escalate cluster roles": a_rule(RBAC, "clusterroles", "escalate"),
    "bind roles": a_rule(RBAC, "roles", "bind"),
    "bind one role": a_rule(RBAC, "clusterroles", "bind", names=("view",)),
    "impersonate users": a_rule("", "users", "impersonate"),
    "impersonate groups": a_rule("", "groups", "impersonate", names=("system:masters",)),
    "impersonate accounts": a_rule("", "serviceaccounts", "impersonate"),
    "impersonate extras": a_rule("authentication.k8s.io", "userextras/scopes", "impersonate"),
    "tokens of accounts": a_rule("", "serviceaccounts/token", "create"),
    "tokens of one account": a_rule("", "serviceaccounts/token", "create", names=("x",)),
    "create roles": a_rule(RBAC, "roles", "create"),
    "update roles": a_rule(RBAC, "roles", "update", names=("x",)),
    "patch bindings": a_rule(RBAC, "rolebindings", "patch"),
    "create bindings": a_rule(RBAC, "rolebindings", "create"),
    "create cluster bindings": a_rule(RBAC, "clusterrolebindings", "create"),
    "delete bindings": a_rule(RBAC, "rolebindings", "delete"),
    "read secrets": a_rule("", "secrets", "get"),
    "list secrets": a_rule("", "secrets", "list"),
    "watch secrets": a_rule("", "secrets", "watch"),
    "write secrets": a_rule("", "secrets", "create"),
    "approve requests": a_rule("certificates.k8s.io", "certificatesigningrequests/approval", "update"),
    "approve for a signer": a_rule("certificates.k8s.io", "signers", "approve"),
    "sign for a signer": a_rule("certificates.k8s.io", "signers", "sign"),
    "attest for a signer": a_rule("certificates.k8s.io", "signers", "attest"),
    "write certificates": a_rule("certificates.k8s.io", "certificatesigningrequests/status", "patch"),
    "accept clusters": a_rule("register.open-cluster-management.io", "managedclusters/accept", "update"),
    "declare add-ons": a_rule(ADDON, "managedclusteraddons/status", "patch"),
    "create works": a_rule(WORK, "manifestworks", "create"),
    "change one work": a_rule(WORK, "manifestworks", "patch", names=("x",)),
    "report for works": a_rule(WORK, "manifestworks/status", "patch"),
    "spread works": a_rule(WORK, "manifestworkreplicasets", "create"),
    "enable add-ons": a_rule(ADDON, "managedclusteraddons", "create"),
    "change its own add-on": a_rule(ADDON, "managedclusteraddons", "update", names=("reporter",)),
    "describe add-ons": a_rule(ADDON, "addontemplates", "create"),
    "trust add-ons": a_rule(ADDON, "clustermanagementaddons", "patch"),
    "create accounts": a_rule("", "serviceaccounts", "create"),
    "delete accounts": a_rule("", "serviceaccounts", "delete", names=("x",)),
    "run pods": a_rule("", "pods", "create"),
    "run deployments": a_rule("apps", "deployments", "patch"),
    "run jobs": a_rule("batch", "cronjobs", "update"),
    "exec by a read": a_rule("", "pods/exec", "get"),
    "forward ports": a_rule("", "pods/portforward", "create"),
    "reach services": a_rule("", "services/proxy", "get"),
    "read through nodes": a_rule("", "nodes/proxy", "get"),
    "webhooks": a_rule("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "create"),
    "validating webhooks": a_rule("admissionregistration.k8s.io", "validatingwebhookconfigurations", "update"),
    "policies": a_rule("admissionregistration.k8s.io", "validatingadmissionpolicies", "delete"),
    "exec": a_rule("", "pods/exec", "create"),
    "attach": a_rule("", "pods/attach", "create"),
    "ephemeral containers": a_rule("", "pods/ephemeralcontainers", "patch"),
    "nodes": a_rule("", "nodes/proxy", "create"),
    "paths": {"nonResourceURLs": ["*"], "verbs": ["get"]},
    "metrics": {"nonResourceURLs": ["/metrics"], "verbs": ["get"]},
}

HARMLESS = {
    "read config maps": a_rule("", "configmaps", *READ),
    "write one config map": a_rule("", "configmaps", "patch", names=("report",)),
    "read named secrets": a_rule("", "secrets", "get", names=("pull",)),
    "read roles": a_rule(RBAC, "roles", *READ),
    "read add-ons": a_rule(ADDON, "managedclusteraddons", *READ),
    "read works": a_rule(WORK, "manifestworks", *READ),
    "read accounts": a_rule("", "serviceaccounts", *READ),
    "read pods": a_rule("", "pods", *READ),
    "jobs of another group": a_rule("example.com", "jobs", "create"),
    "keep leases": a_rule("coordination.k8s.io", "leases", "create", "update"),
    "secrets of another group": a_rule("example.com", "secrets", "list"),
    "nothing": {},
}


@pytest.mark.parametrize("rule", [pytest.param(rule, id=name) for name, rule in DANGEROUS.items()])
def test_dangerous_rule_is_refused(rule: Object) -> None:
    assert validate_rules([a_rule("", "configmaps", "get"), rule])


@pytest.mark.parametrize("rule", [pytest.param(rule, id=name) for name, rule in HARMLESS.items()])
def test_harmless_rule_is_allowed(rule: Object) -> None:
    assert validate_rules([rule]) == []


@pytest.mark.parametrize("grant", [read_only_reporter(), status_writer("report"), config_syncer("pull")])
def test_rights_that_ship_are_harmless(grant: object) -> None:
    assert validate_rules(grant.rules) == []  # type: ignore[attr-defined]  # a Grant, each


@pytest.mark.parametrize(
    ("namespace", "objection"),
    [
        pytest.param("c1", "", id="its own cluster's"),
        pytest.param("team", "", id="a namespace that clusters share"),
        pytest.param("c2", "namespace c2 belongs to another cluster", id="another cluster's"),
        pytest.param("kube-system", "namespace kube-system belongs to the hub itself", id="the hub's"),
    ],
)
def test_decide_namespace(namespace: str, objection: str) -> None:
    assert validate_grant_namespace(namespace, own="c1", clusters=["c1", "c2"], reserved=["kube-system"]) == objection
