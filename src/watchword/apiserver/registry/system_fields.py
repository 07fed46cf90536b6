"""The metadata that belongs to the server: clients may send it, never change it."""

from collections.abc import Callable
from datetime import datetime

from watchword.api.meta import Object
from watchword.api.time import rfc3339
from watchword.apiserver.model import ResourceKind

Entropy = Callable[[int], bytes]

SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def set_new_object_metadata(obj: Object, *, now: datetime, entropy: Entropy) -> None:
    """Give a new object its identity; what the client claimed of it is dropped."""
    metadata = obj["metadata"]
    for claimed in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        metadata.pop(claimed, None)
    metadata["uid"] = make_uuid(entropy)
    metadata["creationTimestamp"] = rfc3339(now)


def make_uuid(entropy: Entropy) -> str:
    digits = entropy(16).hex()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def generated_name(prefix: str, entropy: Entropy) -> str:
    return prefix[:58] + "".join(SUFFIX_ALPHABET[byte % len(SUFFIX_ALPHABET)] for byte in entropy(5))


def keep_stored_metadata(new: Object, old: Object) -> None:
    """Give an updated object the identity it already has; what it claims instead is left for validation."""
    ours, theirs = new["metadata"], old["metadata"]
    ours["uid"] = ours.get("uid") or theirs["uid"]
    for name in ("creationTimestamp", "generation"):
        if name in theirs:
            ours[name] = theirs[name]
        else:
            ours.pop(name, None)
    if "deletionTimestamp" in theirs:
        ours["deletionTimestamp"] = theirs["deletionTimestamp"]
    if "deletionGracePeriodSeconds" in theirs:
        ours.setdefault("deletionGracePeriodSeconds", theirs["deletionGracePeriodSeconds"])
    ours.pop("selfLink", None)


def bump_generation(kind: ResourceKind, new: Object, old: Object) -> None:
    """Count a change of anything but metadata and status."""
    if not (kind.has_generation or kind.custom):
        return
    ignored = {"metadata", "apiVersion", "kind"}
    if "status" in kind.subresources or not kind.custom:
        ignored.add("status")
    if any(new.get(name) != old.get(name) for name in {*new, *old} - ignored):
        new["metadata"]["generation"] = int(old["metadata"].get("generation") or 0) + 1


def is_same(new: Object, old: Object) -> bool:
    """Whether an update changes nothing; times in managedFields alone are no change."""
    if {**new, "metadata": None} != {**old, "metadata": None}:
        return False
    return _comparable(new["metadata"]) == _comparable(old["metadata"])


def _comparable(metadata: Object) -> Object:
    view = {name: value for name, value in metadata.items() if name not in {"resourceVersion", "managedFields"}}
    view["managedFields"] = [
        {name: value for name, value in entry.items() if name != "time"}
        for entry in metadata.get("managedFields") or []
    ]
    return view
