"""The hub side of the sample add-on: all that its author writes."""

from watchword.addons.definition import AddonDefinition, AddonInstance
from watchword.addons.lease import agent_deployment, lease_manifests
from watchword.addons.rbac import status_writer
from watchword.api.meta import Object
from watchword.api.names import IMAGE

NAME = "sample-addon"
REPORT = "sample-addon-report"


def manifests(instance: AddonInstance) -> list[Object]:
    lease = f"--lease-namespace={instance.addon.namespace_on_cluster()}"
    return [*lease_manifests(instance), agent_deployment(instance, NAME, {"app": NAME}, IMAGE, NAME, lease)]


SAMPLE = AddonDefinition(NAME, grants=(status_writer(REPORT),), manifests=manifests)
