"""Whether a stored record is among those a list or a watch means."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from watchword.api.selectors import LabelSelector
from watchword.apiserver.late import Late
from watchword.apiserver.model import ResourceKind
from watchword.apiserver.registry.objects import Objects
from watchword.apiserver.selectors.fields import NO_FIELDS, FieldSelector
from watchword.apiserver.selectors.labels import EVERYTHING
from watchword.apiserver.store.model import Record

_read_labels: Callable[[bytes], dict[str, str]] = Late("watchword.apiserver.registry.label_reading", "read_labels")


@dataclass(frozen=True, slots=True)
class Matcher:
    """Selectors bound to a kind and a namespace."""

    kind: ResourceKind
    objects: Objects
    namespace: str = ""
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = NO_FIELDS

    @property
    def selective(self) -> bool:
        """Whether some objects of the namespace may not match."""
        return bool(self.labels.requirements) or bool(self.fields)

    def matches(self, record: Record) -> bool:
        """Whether the record's object is meant."""
        if self.namespace and not record.path.startswith(f"{self.namespace}/"):
            return False
        if self.labels.requirements and not self.labels.matches(_read_labels(record.body)):
            return False
        return not self.fields or self._fields_match(record)

    def _fields_match(self, record: Record) -> bool:
        name = self.fields.exact("metadata.name")
        if name is not None:
            if record.key.name != name:
                return False
            if len(self.fields.requirements) == 1:
                return True  # the commonest selector needs no look into the object
        return self.fields.matches(self.objects.decode(self.kind, record), self.kind.selectable_fields)


def matcher_for(
    kind: ResourceKind, objects: Objects, namespace: str, labels: LabelSelector, fields: FieldSelector
) -> Matcher:
    """Return the matcher; 400 when the kind cannot be selected by one of the fields."""
    fields.require_known(kind.selectable_fields, namespaced=kind.resource.namespaced)
    return Matcher(kind, objects, namespace, labels, fields)
