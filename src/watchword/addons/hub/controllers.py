"""The hub's controllers for add-ons, as data."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from watchword.addons.catalog import ADDON_CATALOG
from watchword.addons.definition import AddonDefinition, DefinitionLookup
from watchword.addons.driver import HasHubStep
from watchword.addons.hub.definition_controllers import AddonParts, controllers, register_informers
from watchword.addons.hub.feature_labels import FeatureLabelReconciler, clusters_affected_by
from watchword.addons.hub.installation import (
    CLUSTER_SETS,
    PLACEMENTS,
    AddonInstaller,
    InstallStrategies,
    InstallStrategyReconciler,
    PlacementDecisionReconciler,
    Placements,
)
from watchword.addons.templates.definition import BY_CONFIG, TemplateDefinitionLookup, index_by_config
from watchword.api.addon import is_served_in_hub
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import (
    ADDON_DEPLOYMENT_CONFIGS,
    ADDON_TEMPLATES,
    CLUSTER_MANAGEMENT_ADDONS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
)
from watchword.credentials.driver import HubContext
from watchword.runtime.reconcile import ControllerSpec, Reader, Trigger, TriggerSource
from watchword.runtime.status import StatusWriter


class BuiltInDefinitionLookup(Struct, frozen=True):
    """Knows a built-in add-on while the list of add-ons says that the hub serves it; asks `others` for the rest."""

    reader: Reader
    built_in: Mapping[str, AddonDefinition]
    others: DefinitionLookup

    def __call__(self, addon: Object) -> AddonDefinition | None:
        """Return the definition, None when neither a template nor this program describes the add-on."""
        name = addon["metadata"]["name"]
        built_in = self.built_in.get(name)
        known = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(name))
        return built_in if built_in is not None and is_served_in_hub(known) else self.others(addon)


def hub_addon_controllers(
    parts: HubContext, *, signing_namespaces: frozenset[str], built_in: Iterable[AddonDefinition] = ()
) -> Iterable[ControllerSpec]:
    """Return the controllers; in `signing_namespaces` templates may name authorities."""
    # Drivers register informers of their own, and an index covers the informers that exist when it is added.
    driver_steps = [driver.hub_step(parts) for driver in ADDON_CATALOG.drivers if isinstance(driver, HasHubStep)]
    for resource in (CLUSTER_MANAGEMENT_ADDONS, ADDON_TEMPLATES, ADDON_DEPLOYMENT_CONFIGS):
        parts.cache.informer(resource)
    register_informers(parts.cache)
    parts.cache.index(MANAGED_CLUSTER_ADDONS, BY_CONFIG, index_by_config)
    templates = TemplateDefinitionLookup(parts.cache, signing_namespaces)
    described = (
        Trigger(ADDON_TEMPLATES, templates.addons_affected_by),
        Trigger(CLUSTER_MANAGEMENT_ADDONS, templates.addons_affected_by),
        Trigger(ADDON_DEPLOYMENT_CONFIGS, templates.addons_affected_by_config),
        Trigger(MANAGED_CLUSTERS, templates.addons_affected_by_cluster),
    )
    labelling = FeatureLabelReconciler(parts.cache, parts.client)
    yield ControllerSpec(
        "addon-feature-labels",
        MANAGED_CLUSTERS,
        labelling,
        (Trigger(MANAGED_CLUSTER_ADDONS, lambda obj: clusters_affected_by(parts.cache, obj)),),
        concerns=labelling.concerns,
    )
    strategies, decided = InstallStrategies(parts.cache, Placements(parts.cache)), TriggerSource()
    installer = AddonInstaller(parts.cache, parts.client, strategies)
    yield from _strategy_controllers(parts, installer, decided)
    yield from controllers(
        AddonParts(
            parts.cache,
            parts.client,
            parts.events,
            parts.clock,
            BuiltInDefinitionLookup(parts.cache, {row.name: row for row in built_in}, templates),
            triggers=(
                *described,
                Trigger(CLUSTER_MANAGEMENT_ADDONS, installer.by_kind),
                Trigger(MANAGED_CLUSTERS, installer.by_cluster),
                Trigger(MANAGED_CLUSTER_SETS, installer.by_set),
            ),
            driver_steps=driver_steps,
            installer=installer,
            trigger_source=decided,
            approves=True,
        )
    )


def _strategy_controllers(
    parts: HubContext, installer: AddonInstaller, decided: TriggerSource
) -> Iterable[ControllerSpec]:
    strategies = installer.strategies
    judging = InstallStrategyReconciler(strategies, StatusWriter(parts.client, parts.clock, parts.cache))
    settled = TriggerSource()

    def requeue_decision(decision: Object) -> None:
        decided.enqueue_all(installer.by_decision(decision))

    def requeue_all() -> None:
        decided.enqueue_all(installer.by_type(PLACEMENTS))
        settled.enqueue_all(judging.by_type(PLACEMENTS))

    following = PlacementDecisionReconciler(strategies.placements, requeue_decision, requeue_all)
    by_set = (Trigger(MANAGED_CLUSTER_SETS, lambda _: judging.by_type(CLUSTER_SETS)),)
    yield ControllerSpec(
        "addon-install-strategy", CLUSTER_MANAGEMENT_ADDONS, judging, by_set, workers=1, trigger_source=settled
    )
    yield ControllerSpec("placement-decisions", CUSTOM_RESOURCE_DEFINITIONS, following, workers=1)
