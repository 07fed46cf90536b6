"""The exec entry by which a kubeconfig obtains tokens for an EKS hub, and what runs it in the agent."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.credential_report import CredentialValidity
from watchword.api.names import RESTRICTED_KUBECONFIGS
from watchword.api.yaml import YamlError, load
from watchword.kube.exec_plugin import VERSIONS, ExecPlugin
from watchword.registration.aws_irsa.arn import CLUSTER_NAME
from watchword.registration.aws_irsa.options import ClusterPair
from watchword.registration.descriptor import HeldCredential
from watchword.registration.interface import KUBECONFIG, SecretData

COMMAND = "aws"
API_VERSION = VERSIONS[1]  # the one that every release of the `aws` command prints
INSTALL_HINT = "install the AWS CLI, https://aws.amazon.com/cli, or run pip install awscli"
OWN_COMMAND = ("-P", "-s", "-m", "watchword", "aws", "get-token")
_VALUES = {
    "--region": re.compile(r"[a-z]{2,4}(-[a-z]{1,12}){1,3}-[0-9]{1,2}", re.ASCII),
    "--cluster-name": CLUSTER_NAME,
    "--role-arn": re.compile(r"arn:[a-z-]{3,12}:iam::[0-9]{12}:role/ocm-hub-[0-9a-f]{32}", re.ASCII),
}
VARIABLES = "AWS_"
"""How the variables begin that tell the AWS libraries which role to assume, and where STS is."""


class TokenSource(Struct, frozen=True):
    """Which role signs tokens for which hub: all that an exec entry of this driver says."""

    region: str
    cluster: str
    role: str

    @classmethod
    def of(cls, pair: ClusterPair) -> TokenSource:
        """Return the source for a pair of clusters."""
        return cls(pair.hub.region, pair.hub.name, pair.hub_role)

    @classmethod
    def read(cls, data: SecretData) -> TokenSource | None:
        """Return what the kubeconfig in a Secret names; None unless an entry of this driver says exactly the same."""
        entry = read_exec_entry(data)
        arguments = [str(each) for each in entry.get("args") or ()]
        found = {
            flag: value for flag, value in pairwise(arguments) if flag in _VALUES and _VALUES[flag].fullmatch(value)
        }
        if len(found) != len(_VALUES):
            return None
        source = cls(found["--region"], found["--cluster-name"], found["--role-arn"])
        wanted = source.exec_entry()
        said = (entry.get("apiVersion"), entry.get("command"), arguments)
        return source if said == (wanted.api_version, wanted.command, list(wanted.arguments)) else None

    def exec_entry(self) -> ExecPlugin:
        """Return the entry that is written to kubeconfigs: the command that EKS documents, with fixed arguments."""
        return ExecPlugin(
            command=COMMAND,
            arguments=("--region", self.region, "eks", "get-token", *self._names(), "--output", "json"),
            api_version=API_VERSION,
            interactive_mode="Never",
            install_hint=INSTALL_HINT,
        )

    def choose_plugin(self, environment: Mapping[str, str]) -> ExecPlugin:
        """Return what is run: `aws` where it is installed, else the verb of this program that does the same.

        Pods of the process node run the verb alone: aliases in a home make `aws` run other programs.
        """
        variables = {name: value for name, value in environment.items() if name.startswith(VARIABLES)}
        restricted = bool(environment.get(RESTRICTED_KUBECONFIGS))
        installed = None if restricted else shutil.which(COMMAND, path=environment.get("PATH"))
        if installed is not None:
            return replace(self.exec_entry(), command=installed, environment=variables)
        arguments = (*OWN_COMMAND, "--region", self.region, *self._names())
        return ExecPlugin(sys.executable, arguments, variables, API_VERSION, "Never")

    def _names(self) -> tuple[str, ...]:
        return ("--cluster-name", self.cluster, "--role-arn", self.role)


def read_exec_entry(data: SecretData) -> Mapping[str, Any]:
    """Return the exec entry of the first user of a kubeconfig that runs `eks get-token`; empty without one.

    It is only compared and shown, never run: the agent makes its own from its settings.
    """
    text = data.get(KUBECONFIG, b"")
    if b"get-token" not in text:
        return {}
    try:
        document = load(text)
    except YamlError:
        return {}
    users = document.get("users") if isinstance(document, dict) else None
    for row in users if isinstance(users, list) else ():
        user = row.get("user") if isinstance(row, dict) else None
        entry = user.get("exec") if isinstance(user, dict) else None
        if isinstance(entry, dict) and "get-token" in (entry.get("args") or ()):
            return entry
    return {}


def read_held_entry(data: SecretData) -> HeldCredential | None:
    """Return the role that a Secret's kubeconfig assumes; the entry itself does not expire."""
    arguments = [str(each) for each in read_exec_entry(data).get("args") or ()]
    roles = [after for flag, after in pairwise(arguments) if flag in {"--role-arn", "--role"}]
    return HeldCredential(roles[0], CredentialValidity()) if roles else None
