"""Tells about an error in the ConfigMap of pull secrets, where people look for it: at the ConfigMap."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.pullsecrets.settings import validate_configuration
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader


class ConfigurationReconciler(Struct, frozen=True):
    """Reconciles the one ConfigMap; other reconcilers read it by `SettingsReader` and ignore an erroneous one."""

    reader: Reader
    events: EventRecorder

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Record what is wrong with the configuration."""
        found = self.reader.get(CONFIG_MAPS, key)
        objection = "" if found is None else validate_configuration(found.get("data") or {})
        if found is not None and objection:
            self.events.warning(
                found, "PullSecretConfigurationRefused", f"the last valid configuration stays in use: {objection}"
            )
        return Done()
