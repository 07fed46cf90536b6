"""Which rights no add-on gets unless the hub's administrator allows them by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from watchword.api.resources import RBAC_GROUP

ALWAYS_DANGEROUS_VERBS = frozenset({"*", "escalate", "bind", "impersonate", "approve", "sign", "attest"})
READING = frozenset({"get", "list", "watch"})
DANGEROUS_RESOURCES = frozenset(
    {
        "serviceaccounts/token",
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
        "managedclusters/accept",
        "managedclusteraddons/status",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "pods/ephemeralcontainers",
    }
)
"""Writing these gives another identity, or decides for others."""

ADDON_GROUP, WORK_GROUP = "addon.open-cluster-management.io", "work.open-cluster-management.io"
DANGEROUS_TO_WRITE = frozenset(
    {
        (WORK_GROUP, "manifestworks"),
        (WORK_GROUP, "manifestworks/status"),
        (WORK_GROUP, "manifestworkreplicasets"),
        (ADDON_GROUP, "managedclusteraddons"),
        (ADDON_GROUP, "clustermanagementaddons"),
        (ADDON_GROUP, "addontemplates"),
        ("", "serviceaccounts"),
        ("", "pods"),
        ("", "podtemplates"),
        ("", "replicationcontrollers"),
        ("apps", "daemonsets"),
        ("apps", "deployments"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("batch", "cronjobs"),
        ("batch", "jobs"),
    }
)
"""What these describe runs, or gets credentials, with the rights of others: the work agent, the hub, any account."""

CONNECTING = frozenset({"pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"})
"""Reading these is enough to run commands, or to speak to what runs."""

SECRET_RESOURCES = frozenset({"secrets"})
"""Reading these gives credentials of others."""


def validate_rules(rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what is dangerous about the rules, one sentence each; nothing for rules that an add-on may have."""
    return [objection for rule in rules for objection in _validate_rule(rule)]


def _validate_rule(rule: Mapping[str, Any]) -> Iterable[str]:
    verbs = {str(verb) for verb in rule.get("verbs") or ()}
    groups = {str(group) for group in rule.get("apiGroups") or ()}
    resources = {str(resource) for resource in rule.get("resources") or ()}
    if rule.get("nonResourceURLs"):
        yield "paths outside of resources are for administrators"
    if "*" in groups or any("*" in resource for resource in resources):
        yield "a wildcard includes resources that do not exist yet: name groups and resources"
    risky = verbs & ALWAYS_DANGEROUS_VERBS
    if risky:
        yield f"verbs that give an add-on another identity: {', '.join(sorted(risky))}"
    yield from _validate_resources(groups, resources, verbs, named=bool(rule.get("resourceNames")))


def _validate_resources(groups: set[str], resources: set[str], verbs: set[str], *, named: bool) -> Iterable[str]:
    writes = bool(verbs - READING)
    found = resources & DANGEROUS_RESOURCES
    if found and writes:
        yield f"resources that decide identities: {', '.join(sorted(found))}"
    written = {resource for group, resource in DANGEROUS_TO_WRITE if group in groups and resource in resources}
    if written and writes:
        yield f"resources that act with the rights of others: {', '.join(sorted(written))}"
    connected = resources & CONNECTING
    if connected:
        yield f"connections into running programs: {', '.join(sorted(connected))}"
    if RBAC_GROUP in groups and writes:
        yield "rights that change rights"
    if resources & SECRET_RESOURCES and "" in groups and not named:
        yield "secrets without names: name those that are needed"


def validate_grant_namespace(namespace: str, *, own: str, clusters: Iterable[str], reserved: Iterable[str]) -> str:
    """Return why an add-on gets no rights in a namespace; empty when it may."""
    if namespace == own:
        return ""
    if namespace in set(clusters):
        return f"namespace {namespace} belongs to another cluster"
    if namespace in set(reserved):
        return f"namespace {namespace} belongs to the hub itself"
    return ""
