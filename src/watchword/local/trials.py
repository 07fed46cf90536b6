"""How `watchword up` tries each driver on this machine: with which flags, and without an account in a cloud."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from watchword.addons.token.driver import LIFETIME as TOKEN_LIFETIME
from watchword.admin.errors import InvalidInput
from watchword.admin.join import KLUSTERLET
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE, HUB_SERVICE_ACCOUNT
from watchword.api.resources import CONFIG_MAPS
from watchword.credentials.driver import Settings
from watchword.kube.client import Client
from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.driver import AwsIrsaDriver
from watchword.registration.aws_irsa.options import HUB_ARN, HUB_CLUSTER_ARN, MANAGED_CLUSTER_ARN, ROLE_ANNOTATION
from watchword.registration.grpc.driver import BUNDLE_KEY, CA_BUNDLE, CA_FILE, HOSTS, SERVER_ADDRESS

HUB = EksClusterArn("aws", "us-west-2", "111122223333", "hub")
CLUSTER_ACCOUNTS = 444_400_000_000  # each cluster has an account of its own: their issuers have the same name
JoinSettings: TypeAlias = Callable[[Client, str, Path], Awaitable[Settings | None]]
"""Given a client of the hub, the address of the driver's server and a folder: the flags of `join`; None: not yet."""
HUB_SETTINGS: Mapping[str, Settings] = {"grpc": {HOSTS.flag: "localhost,127.0.0.1"}}
"""Flags of `init`, by driver."""
CLUSTER_SETTINGS: Settings = {TOKEN_LIFETIME.flag: str(24 * 3600)}
"""Flags of `join`, by any driver."""


LIBRARIES: Mapping[str, tuple[str, Sequence[str]]] = {
    "grpc": ("grpc", ("grpclib", "google.protobuf")),
    AwsIrsaDriver.name: ("aws,aws-emulator", ("boto3",)),
}
"""By driver: the extras of the package that bring its libraries, and the modules to look for."""


def require_libraries(driver: str) -> None:
    """Raise `InvalidInput` when the libraries of a driver are not installed: its first use is deep in a process."""
    extras, modules = LIBRARIES.get(driver, ("", ()))
    missing = [name for name in modules if not _is_installed(name)]
    if missing:
        raise InvalidInput(
            f"the driver {driver} needs libraries that are not installed ({', '.join(missing)}): run "
            f"pip install 'watchword[{extras}]'"
        )


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


class AwsTrial:
    """How a driver is tried with the emulator of AWS, which is a program of its own."""

    name = "aws"  # of the cloud, for messages and for the folder of the emulator
    variable = "WATCHWORD_AWS_EMULATOR"  # the emulator's command, which serves a folder until its standard input ends
    audience = "sts.amazonaws.com"  # of the ServiceAccount tokens that the cloud accepts
    hub_account = ObjectKey(HUB_NAMESPACE, HUB_SERVICE_ACCOUNT)  # with which the hub's controllers prove who they are
    agent_account = ObjectKey(AGENT_NAMESPACE, f"{KLUSTERLET}-{AwsIrsaDriver.account_suffix}")
    hub_settings: Settings = {HUB_ARN.flag: str(HUB)}  # noqa: RUF012 - flags of `init`, never changed

    def cluster_settings(self, number: int) -> Settings:
        return {HUB_CLUSTER_ARN.flag: str(HUB), MANAGED_CLUSTER_ARN.flag: str(managed_arn(number))}

    def accounts(self, hub: Path, clusters: Sequence[Path]) -> Object:
        numbered = enumerate(clusters, 1)
        return {
            "hub": {"arn": str(HUB), "kubeconfig": str(hub)},
            "clusters": [{"arn": str(managed_arn(number)), "kubeconfig": str(path)} for number, path in numbered],
        }

    def environment(self, endpoint: str, token: Path, settings: Settings) -> Mapping[str, str]:
        """Return the variables of pods, from the emulator's endpoint, their token file and the flags of `join`."""
        is_hub = MANAGED_CLUSTER_ARN.flag not in settings
        driver = AwsIrsaDriver()
        annotations = driver.hub_account_annotations(settings) if is_hub else driver.account_annotations(settings)
        return {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_DEFAULT_REGION": HUB.region,
            "AWS_ROLE_ARN": annotations[ROLE_ANNOTATION],
            "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
            "AWS_EC2_METADATA_DISABLED": "true",
        }


def managed_arn(number: int) -> EksClusterArn:
    return EksClusterArn("aws", HUB.region, str(CLUSTER_ACCOUNTS + number), f"cluster{number}")


async def grpc_join_settings(hub: Client, server: str, folder: Path) -> Settings | None:
    """Return the flags of `join`; None until the hub has published the authority of the server's certificate."""
    found = await hub.find(CONFIG_MAPS, CA_BUNDLE)
    bundle = str(((found or {}).get("data") or {}).get(BUNDLE_KEY) or "")
    if not bundle:
        return None
    path = folder / "grpc-ca.crt"
    path.write_text(bundle)
    return {SERVER_ADDRESS.flag: server, CA_FILE.flag: str(path)}


CLOUDS: Mapping[str, AwsTrial] = {AwsIrsaDriver.name: AwsTrial()}
"""The clouds that are emulated, by the driver that needs them."""


JOIN_SETTINGS: Mapping[str, JoinSettings] = {"grpc": grpc_join_settings}
"""Further flags of `join`, by driver, which are known once the hub runs."""
