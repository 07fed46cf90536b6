"""Whether a stored record is among those a list or a watch means."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from watchword.api.lazy_function import LazyFunction
from watchword.api.meta import ObjectKey
from watchword.api.selectors import LabelSelector
from watchword.apiserver.model import ResourceKind
from watchword.apiserver.registry.object_storage import ObjectStorage
from watchword.apiserver.selectors.fields import NO_FIELDS, FieldSelector
from watchword.apiserver.selectors.labels import EVERYTHING
from watchword.apiserver.store.model import Record, path_of

_read_labels: Callable[[bytes], dict[str, str]] = LazyFunction(
    "watchword.apiserver.registry.label_decoder", "read_labels"
)


class Matcher(Struct, frozen=True):
    """Selectors bound to a kind and a namespace."""

    kind: ResourceKind
    objects: ObjectStorage
    namespace: str = ""
    labels: LabelSelector = EVERYTHING
    fields: FieldSelector = NO_FIELDS
    path: str = ""  # the only one that can match, when the selectors name it
    ending: str = ""  # how every path ends that can match, when they name it in all namespaces
    path_decides: bool = False  # a selector by name only, the most common one, needs no decoding

    @property
    def beginning(self) -> str:
        """How every path begins that can match."""
        return f"{self.namespace}/" if self.namespace else ""

    @property
    def selective(self) -> bool:
        """Whether some objects of the namespace may not match."""
        return bool(self.labels.requirements) or bool(self.fields)

    def matches(self, record: Record) -> bool:
        """Whether the record's object matches."""
        if self.path:
            if record.path != self.path:
                return False
        elif not record.path.endswith(self.ending) or not record.path.startswith(self.beginning):
            return False
        if self.path_decides:
            return True
        if self.labels.requirements and not self.labels.matches(_read_labels(record.body)):
            return False
        return not self.fields or self.fields.matches(
            self.objects.decode(self.kind, record), self.kind.selectable_fields
        )


def matcher_for(
    kind: ResourceKind, objects: ObjectStorage, namespace: str, labels: LabelSelector, fields: FieldSelector
) -> Matcher:
    """Return the matcher; 400 when the kind cannot be selected by one of the fields."""
    fields.require_known(kind.selectable_fields, namespaced=kind.resource.namespaced)
    name = fields.exact("metadata.name")
    if name is None:
        return Matcher(kind, objects, namespace, labels, fields)
    only = len(fields.requirements) == 1 and not labels.requirements
    if kind.resource.namespaced and not namespace:
        return Matcher(kind, objects, namespace, labels, fields, ending=f"/{name}", path_decides=only)
    path = path_of(ObjectKey(namespace if kind.resource.namespaced else "", name))
    return Matcher(kind, objects, namespace, labels, fields, path, path_decides=only)
