"""Renders every right that our processes have on a cluster, with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tools.used_rights import Right, read_record
from watchword.api.names import Label
from watchword.api.rbac import RbacRule
from watchword.operator import bundles
from watchword.operator import pull_secret_manifests as pull_secrets
from watchword.operator import rbac as rules
from watchword.registration.catalog import CATALOG

INTRODUCTION = """# Rights

Every right that Watchword's processes have on a cluster, and what it is for. Rendered from the code by `make docs`.
*Italic* verbs were not used in the test suites on a kube-apiserver, by its audit log (`make rights-record`):
`tests/operator/test_used_rights.py` says why they are held.
"""
PROCESSES = {
    "Operator": "operator",
    "Agent": "agent",
    "Hub,": "hub",
    "Hub that": "accounts",
    "Manager": "accounts",
    "Clean-up": "cleaner",
    "Server `grpc-server`": "grpc-server",
    "Pull secrets,": "pull-secrets",
}
"""How the title of a section begins, and the process on record."""

ROLES: tuple[tuple[str, str, Sequence[RbacRule]], ...] = (
    ("Operator, everywhere", rules.OPERATOR_ROLE, rules.OPERATOR_RIGHTS),
    ("Operator, in the namespaces of agent and hub", rules.OPERATOR_OWN_ROLE, rules.OPERATOR_OWN_RIGHTS),
    ("Operator, in its own namespace", rules.OPERATOR_OWN_ROLE, rules.ELECTION_RIGHTS),
    ("Agent, everywhere", rules.AGENT_ROLE, rules.AGENT_RIGHTS),
    ("Agent, in its own namespaces", rules.AGENT_OWN_ROLE, rules.AGENT_OWN_RIGHTS),
    ("Hub, everywhere", rules.HUB_ROLE, rules.HUB_RIGHTS),
    ("Hub, in kube-system", rules.HUB_TOKENS_ROLE, rules.HUB_TOKENS_RIGHTS),
    ("Hub, in kube-public", rules.HUB_TOKENS_ROLE, rules.HUB_INFO_RIGHTS),
    ("Hub that serves managed service accounts, in addition", rules.ACCOUNTS_ROLE, bundles.ACCOUNTS_RIGHTS),
    ("Hub with accounts as an add-on", bundles.ADDON_ROLE, bundles.ACCOUNTS_RIGHTS),
    ("Manager of managed service accounts beside another hub", bundles.MANAGER_ROLE, bundles.MANAGER_RIGHTS),
    ("Clean-up of clusters", rules.CLEANER_ROLE, rules.CLEANER_RIGHTS),
    ("Pull secrets, everywhere", pull_secrets.PULL_SECRETS_ROLE, pull_secrets.PULL_SECRETS_RIGHTS),
    ("Pull secrets with `--only-used`", pull_secrets.PULL_SECRETS_ROLE, pull_secrets.ONLY_USED_RIGHTS),
    ("Pull secrets, in their own namespace", pull_secrets.PULL_SECRETS_OWN_ROLE, pull_secrets.PULL_SECRETS_OWN_RIGHTS),
    ("Registry token service", pull_secrets.REGISTRY_AUTH_ROLE, pull_secrets.REGISTRY_AUTH_RIGHTS),
    *(
        row
        for server in CATALOG.servers
        for row in (
            (f"Server `{server.name}`, everywhere", server.role, server.rules),
            (f"Hub with the server `{server.name}`, everywhere", server.signer_role, server.signer_rules),
            (
                f"Hub with the server `{server.name}`, in its own namespace",
                server.controller_role,
                server.controller_rules,
            ),
        )
    ),
    ("Dashboard, everywhere", bundles.DASHBOARD_ROLE, bundles.DASHBOARD_RIGHTS),
    ("Dashboard, in kube-public", bundles.AUTHORITY_ROLE, bundles.AUTHORITY_RIGHTS),
    ("Dashboard with `--join-tokens`, in kube-system", bundles.TOKENS_ROLE, bundles.TOKENS_RIGHTS),
    ("Dashboard with `--pull-secrets`, everywhere", bundles.PULL_SECRETS_ROLE, bundles.PULL_SECRETS_RIGHTS),
)


def render_rights() -> str:
    """Return the page; of a role that contains another's rights only the others are listed."""
    record = read_record()
    sections: list[str] = []
    listed: dict[str, Sequence[RbacRule]] = {}
    for title, role, rights in ROLES:
        inner = next((other for other, held in listed.items() if len(held) > 1 and set(held) <= set(rights)), None)
        known = listed[inner] if inner else ()
        own = [right for right in rights if right not in known]
        also = f", with the rights of `{inner}`{' and these:' if own else '.'}" if inner else "."
        rows = f"\n{_list(own, _used_by(title, record))}" if own else ""
        sections.append(f"## {title}\n\nRole `{role}`{also}\n{rows}")
        listed[role] = rights
    role = rules.EXECUTION_ROLE
    work = f"The agent applies work with the role `{role}`; bind more to its account where work needs it.\n"
    label, aggregated = Label.ADDON_GRANTABLE, rules.HUB_GRANTS_ROLE
    grants = f"The hub also holds the rules of each ClusterRole with the label `{label}` (role `{aggregated}`).\n"
    return "\n".join([INTRODUCTION, *sections, work, grants])


def _used_by(title: str, record: Mapping[str, set[Right]]) -> set[Right] | None:
    return next((record[name] for start, name in PROCESSES.items() if title.startswith(start)), None)


def _list(rights: Sequence[RbacRule], used: set[Right] | None) -> str:
    """Return the rights of a role, those with the same verbs and reason together; unused verbs are marked."""
    rows: dict[str, list[str]] = {}
    for right in rights:
        kinds = [f"`{kind}.{right.group}`" if right.group else f"`{kind}`" for kind in right.resources]
        names = ", ".join(f"`{name}`" for name in right.names)
        verbs = ", ".join(verb if _is_used(right, verb, used) else f"*{verb}*" for verb in right.verbs)
        what = f"{', '.join(kinds)}{f', only {names}' if names else ''}"
        key = f"{verbs}; {right.why}"
        rows.setdefault(f"{what}: {key}" if names else key, []).append(what)
    lines = [key if key.startswith(what[0]) else f"{', '.join(what)}: {key}" for key, what in rows.items()]
    return "".join(f"- {line}\n" for line in lines)


def _is_used(right: RbacRule, verb: str, used: set[Right] | None) -> bool:
    return used is None or any((right.group, kind, verb) in used for kind in right.resources)
