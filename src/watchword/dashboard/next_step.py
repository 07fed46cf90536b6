"""The command that a person runs next, built from names alone: text from clusters never becomes a command."""

from __future__ import annotations

import shlex

from watchword.admin.account_rows import ACCOUNT_TOKEN
from watchword.admin.health import InventoryHealth
from watchword.admin.inventory_rows import AUTHORITY, JOIN_TOKEN, AddonRow, ClusterRow, CredentialRow
from watchword.admin.pull_secret_rows import PULL_SECRET

CHECK_HUB = "watchword doctor"


def choose_cluster_command(row: ClusterRow) -> str:
    """Return the command for a cluster that needs attention, empty for one that is well."""
    if not row.health.needs_attention:
        return ""
    name = shlex.quote(row.name)
    return f"watchword accept --clusters {name}" if row.accepted == "no" else f"watchword clusters show {name}"


def choose_addon_command(row: AddonRow) -> str:
    """Return the command for an add-on that needs attention, empty for one that is well."""
    if not row.health.needs_attention:
        return ""
    return f"watchword addon show {shlex.quote(row.name)} --cluster {shlex.quote(row.cluster)}"


def choose_credential_command(row: CredentialRow) -> str:
    """Return the command for a credential that needs attention, empty for one that is well."""
    if not row.health.needs_attention:
        return ""
    cluster = shlex.quote(row.cluster)
    commands = {
        AUTHORITY: CHECK_HUB,
        JOIN_TOKEN: "watchword token create --print-join-command",
        ACCOUNT_TOKEN: f"watchword serviceaccount show {shlex.quote(row.subject)} -n {cluster}",
        PULL_SECRET: "watchword pull-secrets list",
    }
    if row.kind in commands:
        return commands[row.kind]
    if row.health is InventoryHealth.EXPIRED and not row.holder.startswith("add-on "):
        return f"watchword rejoin --cluster-name {cluster}"
    return f"watchword clusters show {cluster}"
