"""The cluster's side of the aws-irsa driver: a kubeconfig whose exec plugin obtains EKS tokens."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.conditions import is_true
from watchword.api.credential_report import CredentialValidity, format_validity
from watchword.api.meta import Object, ObjectKey, annotations_of, list_at, mapping_at
from watchword.api.names import RESTRICTED_KUBECONFIGS, Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.api.yaml import YamlError, load
from watchword.credentials import driver
from watchword.kube.connect import endpoint_of, make_client
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import VERSIONS, ExecCredential, ExecPlugin
from watchword.kube.kubeconfig import UserEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.transport import Transport
from watchword.registration.aws_irsa.documents import CLUSTER_NAME
from watchword.registration.aws_irsa.errors import InvalidName
from watchword.registration.aws_irsa.options import NAME, ClusterPair, read_claimed_arn
from watchword.registration.driver import ConnectorContext, KubeconfigConnector
from watchword.runtime.clock import Clock
from watchword.runtime.reconcile import Reader

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
        return cls(pair.hub.region, pair.hub.name, pair.hub_role)

    @classmethod
    def read(cls, data: driver.SecretData) -> TokenSource | None:
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


def read_exec_entry(data: driver.SecretData) -> Mapping[str, Any]:
    """Return the exec entry of the first user of a kubeconfig that runs `eks get-token`; empty without one.

    It is only compared and shown, never run: the agent makes its own from its settings.
    """
    text = data.get(driver.KUBECONFIG, b"")
    if b"get-token" not in text:
        return {}
    try:
        document = load(text)
    except YamlError:
        return {}
    entries = (mapping_at(row, "user", "exec") for row in list_at(document, "users"))
    return next((entry for entry in entries if "get-token" in list_at(entry, "args")), {})


def read_held_entry(data: driver.SecretData) -> driver.HeldCredential | None:
    """Return the role that a Secret's kubeconfig assumes; the entry itself does not expire."""
    arguments = [str(each) for each in read_exec_entry(data).get("args") or ()]
    roles = [after for flag, after in pairwise(arguments) if flag in {"--role-arn", "--role"}]
    return driver.HeldCredential(roles[0], CredentialValidity()) if roles else None


RECHECK_INTERVAL = timedelta(minutes=5)  # acceptance itself triggers the reconciler


class AwsIrsaAgentDriver(Struct, frozen=True):
    """Makes no request and stores no token: the proof is the IAM role of the agent's pods."""

    reader: Reader
    clock: Clock
    pair: ClusterPair

    @classmethod
    def make(cls, context: driver.AgentContext) -> AwsIrsaAgentDriver:
        """Return the driver, ready to use; `InvalidName` when its settings are incomplete."""
        return cls(context.reader, context.clock, ClusterPair.read(context.settings))

    def user_entry(self) -> UserEntry:
        """Return the user of the kubeconfig: an exec entry, which obtains a new token when one expires."""
        return UserEntry(plugin=TokenSource.of(self.pair).exec_entry())

    def owned_keys(self) -> frozenset[str]:
        """Return no keys: the kubeconfig is the whole credential."""
        return frozenset()

    def assess(self, wanted: driver.WantedCredential, held: driver.SecretData) -> driver.ValidCredential | None:  # noqa: ARG002 - the protocol's shape
        is_own = TokenSource.read(held) == TokenSource.of(self.pair)
        return driver.ValidCredential(None, None, self._message()) if is_own else None

    async def obtain(self, wanted: driver.WantedCredential, held: driver.SecretData) -> driver.ObtainResult:
        """Return the credential once the hub has accepted the cluster."""
        found = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(wanted.cluster))
        valid = self.assess(wanted, held)
        if found is None and valid is not None:
            return valid  # the hub has not answered since the agent started
        if found is None or not is_true(found, ConditionType.HUB_ACCEPTED) or not self._is_accepted_by_role(found):
            message = "waiting for the hub's administrator to accept the cluster, and for its role on the hub"
            return driver.Pending("AwaitingHubApproval", message, recheck=RECHECK_INTERVAL)
        return valid or driver.NewCredential({}, self.clock.now(), None, None, self._message())

    def _is_accepted_by_role(self, found: Object) -> bool:
        """Whether the acceptance is for this driver, and for this very EKS cluster; hubs of OCM record no driver."""
        annotations = annotations_of(found)
        try:
            is_own = read_claimed_arn(annotations, self.pair.hub) == self.pair.managed
        except InvalidName:
            return False
        return is_own and annotations.get(Annotation.ACCEPTED_DRIVER, NAME) == NAME

    def _message(self) -> str:
        return f"kubeconfig that assumes role {self.pair.hub_role} {format_validity(CredentialValidity())}"


@dataclass(kw_only=True)
class AwsIrsaConnector(KubeconfigConnector):
    """Joins with the bootstrap kubeconfig; afterwards it runs a program that this driver chose.

    The exec entry of a kubeconfig is never run as it stands, so a changed Secret cannot make the agent run another
    program.
    """

    source: TokenSource | None  # None: a command without settings, which reads it from the Secret
    environment: Mapping[str, str]

    @classmethod
    def make(cls, context: ConnectorContext) -> AwsIrsaConnector:
        """Return the connector, ready to use; `InvalidName` when its settings are malformed."""
        source = TokenSource.of(ClusterPair.read(context.settings)) if context.settings else None
        return cls(context.bootstrap, source=source, environment=context.environment)

    def own(self, data: driver.SecretData) -> Transport:
        """Return a transport with tokens of the role that the hub gave this cluster; `ConfigError` without one."""
        # The address alone is read from the kubeconfig, so its exec entry need not be refused.
        cluster = parse_kubeconfig(data.get(driver.KUBECONFIG, b""), environment={}).choose().cluster
        source = self.source or TokenSource.read(data)
        if source is None:
            raise ConfigError(
                "the kubeconfig in the Secret has no exec entry for an EKS hub: let the agent write it again"
            )
        self.known = cluster
        return make_client(endpoint_of(cluster), ExecCredential(source.choose_plugin(self.environment))).transport
