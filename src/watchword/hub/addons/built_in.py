"""Finds the definition of an add-on that is part of this program, before its template."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from watchword.addons.definition import AddonDefinition, DefinitionLookup
from watchword.api.addon import is_served_in_hub
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS
from watchword.runtime.reconcile import Reader


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
