"""Renders every right that our processes have on a cluster, with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from watchword.api.names import Label
from watchword.api.rbac import RbacRule
from watchword.operator import account_manifests as accounts
from watchword.operator import dashboard_manifests as dashboard
from watchword.operator import pull_secret_manifests as pull_secrets
from watchword.operator import rbac as rules
from watchword.registration.catalog import CATALOG

INTRODUCTION = """# Rights

Every right that Watchword's processes have on a cluster, and what it is for. Rendered from `RbacRule`s in the code by
`make docs`. A test takes the operator's rights away one by one and sees something break each time.
"""

ROLES: tuple[tuple[str, str, Sequence[RbacRule]], ...] = (
    ("Operator, everywhere", rules.OPERATOR_ROLE, rules.OPERATOR_RIGHTS),
    ("Operator, in the namespaces of agent and hub", rules.OPERATOR_OWN_ROLE, rules.OPERATOR_OWN_RIGHTS),
    ("Operator, in its own namespace", rules.OPERATOR_OWN_ROLE, rules.ELECTION_RIGHTS),
    ("Agent, everywhere", rules.AGENT_ROLE, rules.AGENT_RIGHTS),
    ("Agent, in its own namespaces", rules.AGENT_OWN_ROLE, rules.AGENT_OWN_RIGHTS),
    ("Hub, everywhere", rules.HUB_ROLE, rules.HUB_RIGHTS),
    ("Hub, in kube-system", rules.HUB_TOKENS_ROLE, rules.HUB_TOKENS_RIGHTS),
    ("Hub, in kube-public", rules.HUB_TOKENS_ROLE, rules.HUB_INFO_RIGHTS),
    ("Hub that serves managed service accounts, in addition", rules.ACCOUNTS_ROLE, accounts.ACCOUNTS_RIGHTS),
    ("Manager of managed service accounts beside another hub", accounts.MANAGER_ROLE, accounts.MANAGER_RIGHTS),
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
    ("Dashboard, everywhere", dashboard.DASHBOARD_ROLE, dashboard.DASHBOARD_RIGHTS),
    ("Dashboard, in kube-public", dashboard.AUTHORITY_ROLE, dashboard.AUTHORITY_RIGHTS),
    ("Dashboard with `--join-tokens`, in kube-system", dashboard.TOKENS_ROLE, dashboard.TOKENS_RIGHTS),
    ("Dashboard with `--pull-secrets`, everywhere", dashboard.PULL_SECRETS_ROLE, dashboard.PULL_SECRETS_RIGHTS),
)


def render_rights() -> str:
    """Return the page."""
    sections = [f"## {title}\n\nRole `{role}`.\n\n{_table(rights)}" for title, role, rights in ROLES]
    role = rules.EXECUTION_ROLE
    work = f"The agent applies work with the role `{role}`; bind more to its account where work needs it.\n"
    label, aggregated = Label.ADDON_GRANTABLE, rules.HUB_GRANTS_ROLE
    grants = f"The hub also holds the rules of each ClusterRole with the label `{label}` (role `{aggregated}`).\n"
    return "\n".join([INTRODUCTION, *sections, work, grants])


def _table(rights: Sequence[RbacRule]) -> str:
    rows = [
        f"| {right.group or 'core'} | {', '.join(right.resources)} | {', '.join(right.verbs)} "
        f"| {', '.join(right.names) or 'any'} | {right.why} |\n"
        for right in rights
    ]
    return "".join(["| group | resources | verbs | names | why |\n", "|---|---|---|---|---|\n", *rows])
