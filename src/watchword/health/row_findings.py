"""Findings about the rows of an inventory: which need attention, and the next command for each."""

import shlex
from collections.abc import Iterator
from datetime import datetime
from typing import TypeAlias

from watchword.health import inventory_rows
from watchword.health.finding import Finding, Severity
from watchword.health.formatting import format_timestamp
from watchword.health.states import InventoryHealth

Row: TypeAlias = inventory_rows.ClusterRow | inventory_rows.AddonRow | inventory_rows.CredentialRow


def inventory_findings(inventory: inventory_rows.Inventory) -> Iterator[tuple[str, Finding]]:
    """Yield what needs attention with its table; an add-on's finding stands for its credential unless that is worse."""
    addons: dict[tuple[str, str], Severity] = {}
    for cluster in inventory.clusters:
        if (found := cluster_finding(cluster)) is not None:
            yield "clusters", found
    for addon in inventory.addons:
        if (found := addon_finding(addon)) is not None:
            addons[addon.cluster, addon.name] = found.severity
            yield "add-ons", found
    for row in inventory.credentials:
        found = credential_finding(row)
        if found is not None and found.severity < addons.get((row.cluster, row.addon), Severity.OK):
            yield "credentials", found


def decide_severity(health: InventoryHealth) -> Severity:
    if health < InventoryHealth.PENDING:
        return Severity.FAILURE
    return Severity.WARNING if health.needs_attention else Severity.OK


def cluster_finding(row: inventory_rows.ClusterRow) -> Finding | None:
    command = member_command(row.name)
    if row.accepted == "no" and row.health is InventoryHealth.PENDING:
        command = f"watchword accept {shlex.quote(row.name)}"
    return _finding("Cluster", row, f"cluster {row.name}", row.name, command)


def addon_finding(row: inventory_rows.AddonRow) -> Finding | None:
    command = f"watchword addon show {shlex.quote(row.name)} --cluster {shlex.quote(row.cluster)}"
    return _finding("AddOn", row, f"add-on {row.name} on {row.cluster}", row.cluster, command)


def credential_finding(row: inventory_rows.CredentialRow) -> Finding | None:
    return _finding("Credential", row, f"{row.kind} of {row.holder}", row.cluster, _command(row), row.consequence)


def _finding(kind: str, row: Row, about: str, cluster: str, command: str, consequence: str = "") -> Finding | None:
    severity = decide_severity(row.health)
    if severity is Severity.OK:
        return None
    note = row.note or ": ".join(filter(None, (row.health.label.lower(), consequence)))
    return Finding(severity, f"{kind}{row.health.label}", note, command, about, cluster)


def expiry_finding(row: inventory_rows.CredentialRow, ends: datetime) -> Finding:
    """Return a finding about a credential that ends and that nothing has announced to renew."""
    known = credential_finding(row)
    if known is not None:
        return known
    sentence = f"ends at {format_timestamp(ends)}, and no renewal is announced: {row.consequence}"
    about = f"{row.kind} of {row.holder}"
    return Finding(Severity.WARNING, "CredentialEnds", sentence, _command(row), about, row.cluster)


def _command(row: inventory_rows.CredentialRow) -> str:
    if row.command:
        return row.command
    cluster = shlex.quote(row.cluster)
    commands = {
        inventory_rows.AUTHORITY: "watchword init",
        inventory_rows.ACCOUNT_TOKEN: f"watchword serviceaccount show {shlex.quote(row.subject)} -n {cluster}",
        inventory_rows.PULL_SECRET: "watchword pull-secrets list --unhealthy",
    }
    if row.kind in commands:
        return commands[row.kind]
    if row.addon:
        return f"watchword addon show {shlex.quote(row.addon)} --cluster {cluster}"
    if not row.cluster:  # the certificate of a driver's server
        return "watchword logs hub"
    if row.health is InventoryHealth.EXPIRED:
        return f"watchword token create --for-cluster {cluster} --print-join-command"
    return member_command(row.cluster)


def member_command(cluster: str) -> str:
    return f"watchword doctor --cluster {shlex.quote(cluster)}"
