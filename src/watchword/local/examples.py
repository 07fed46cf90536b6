"""The examples that `watchword up` shows: an add-on, a managed service account, image pull secrets."""

from contextlib import suppress
from datetime import datetime

from watchword.accounts.clients import ClusterClients
from watchword.addons.hub.definition_controllers import run_addon
from watchword.addons.sample.hub import NAME, SAMPLE
from watchword.admin.addons import AccountsAddonAdmin
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import ADDON_NAME
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import ConditionType
from watchword.api.pull_secrets import ANNOTATION_PULL_SECRET
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.discovery.discover import Progress
from watchword.health.inventory import decide_addon_row
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import AlreadyExists
from watchword.local.control_plane import LocalControlPlane
from watchword.local.fleet import LocalFleet
from watchword.operator.pull_secret_manifests import PullSecretBundleOptions, pull_secret_bundle
from watchword.operator.rendering import PodSettings
from watchword.pullsecrets.inventory import PullSecretHealth, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret, project_pull_secret
from watchword.runtime.clock import Clock

ACCOUNT = ObjectKey("demo", "robot")
CLUSTER_SET = "demo"  # of the clusters with the add-on
SET_MEMBER = {"watchword.dev/demo": "accounts"}
ENABLED_ON = 2  # the first clusters: one for each driver
REGISTRY, AUDIENCE = "registry.example:5000", "registry.example"
PULLING_ACCOUNT = ObjectKey("default", "default")
_ADVICE = "see `kubectl -n watchword-pull-secrets get pods`"


async def start_accounts(fleet: LocalFleet) -> list[LocalControlPlane]:
    """Have the hub serve accounts, enable the add-on on the first clusters, declare one account; return them."""
    members = fleet.clusters[:ENABLED_ON]
    client = fleet.hub.client
    await AccountsAddonAdmin(client).install()
    binding = MANAGED_CLUSTER_SET_BINDINGS.manifest(
        ObjectKey(ACCOUNT.namespace, CLUSTER_SET), spec={"clusterSet": CLUSTER_SET}
    )
    addons = [MANAGED_CLUSTER_ADDONS.manifest(ObjectKey(member.name, ADDON_NAME), spec={}) for member in members]
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": SET_MEMBER}}
    chosen = MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(CLUSTER_SET), spec={"clusterSelector": selector})
    for member in members:
        await client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(member.name), {"metadata": {"labels": SET_MEMBER}})
    for resource, manifest in (
        (MANAGED_CLUSTER_SETS, chosen),
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ACCOUNT.namespace))),
        (MANAGED_CLUSTER_SET_BINDINGS, binding),
        *((MANAGED_CLUSTER_ADDONS, addon) for addon in addons),
        (MANAGED_SERVICE_ACCOUNTS, MANAGED_SERVICE_ACCOUNTS.manifest(ACCOUNT, spec={})),
    ):
        with suppress(AlreadyExists):  # a fleet that was up before
            await client.create(resource, manifest)
    return members


async def use_account(fleet: LocalFleet, members: list[LocalControlPlane]) -> list[str]:
    async with ClusterClients(fleet.hub.client, ACCOUNT.name, namespace=ACCOUNT.namespace) as clusters:
        answers = [await who_am_i(await clusters.client(member.name, within=60)) for member in members]
    return [answer.username for answer in answers]


async def await_reports(fleet: LocalFleet, members: list[LocalControlPlane], progress: Progress) -> None:
    """Wait until the agents have reported the account's tokens."""
    waiter = ObjectWaiter(fleet.hub.client, progress=progress)
    for member in members:
        key = ObjectKey(member.name, ACCOUNT.name)
        await waiter.until(MANAGED_SERVICE_ACCOUNTS, key, validate_report, advice="see `watchword doctor`")


def validate_report(account: Object | None) -> str:
    """Return what is missing until an agent has reported the token of an account; empty when it has."""
    is_reported = account is not None and is_true(account, ConditionType.TOKEN_REPORTED)
    return "" if is_reported else "waiting for the agents to report the tokens"


async def start_pull_secrets(member: LocalControlPlane) -> None:
    """Deploy the controllers as `watchword manifests pull-secrets` prints them."""
    options = PullSecretBundleOptions(registries=(REGISTRY,), audience=AUDIENCE, pods=PodSettings(replicas=1))
    for resource, manifest in pull_secret_bundle(options):
        with suppress(AlreadyExists):  # a fleet that was up before
            await member.client.create(resource, manifest)


async def await_pull_secret(member: LocalControlPlane, clock: Clock, progress: Progress) -> str:
    """Wait until an account has a pull secret with a valid token, and return the name of the secret."""
    waiter = ObjectWaiter(member.client, progress=progress)
    account = await waiter.until(SERVICE_ACCOUNTS, PULLING_ACCOUNT, validate_reference, advice=_ADVICE)
    name = annotations_of(account)[ANNOTATION_PULL_SECRET]

    def validate(secret: Object | None) -> str:
        return validate_token(secret, now=clock.now())

    await waiter.until(SECRETS, ObjectKey(PULLING_ACCOUNT.namespace, name), validate, advice=_ADVICE)
    return name


def validate_reference(account: Object | None) -> str:
    """Return what is missing until an account names its pull secret; empty when it does."""
    named = annotations_of(account or {}).get(ANNOTATION_PULL_SECRET)
    return "" if named else f"ServiceAccount {PULLING_ACCOUNT} waits for its pull secret"


def validate_token(secret: Object | None, *, now: datetime) -> str:
    """Return what is missing until a pull secret holds a valid token; empty when it does."""
    projected = None if secret is None else project_pull_secret(secret)
    found = None if projected is None else PullSecret.read(projected)
    is_healthy = found is not None and pull_secret_row(found, now=now).health is PullSecretHealth.HEALTHY
    return "" if is_healthy else f"the pull secret of ServiceAccount {PULLING_ACCOUNT} waits for a token"


async def start_sample_addon(fleet: LocalFleet) -> list[LocalControlPlane]:
    """Run the add-on's hub side and enable it on the first clusters; return those."""
    members = fleet.clusters[:ENABLED_ON]
    fleet.supervisor.start(
        "sample add-on", lambda stop: run_addon(fleet.hub.client, SAMPLE, clock=fleet.clock, stop=stop)
    )
    for member in members:
        with suppress(AlreadyExists):  # a fleet that was up before
            key = ObjectKey(member.name, NAME)
            await fleet.hub.client.create(MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTER_ADDONS.manifest(key, spec={}))
    return members


def is_addon_ready(addon: Object | None) -> bool:
    if addon is None:
        return False
    return decide_addon_row(addon).credential == "yes" and is_true(addon, ConditionType.ADDON_AVAILABLE)
