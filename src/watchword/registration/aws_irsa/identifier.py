"""The four tags of a pair of clusters, and the identifier that names their roles."""

from __future__ import annotations

from hashlib import md5

from msgspec import Struct
from msgspec.structs import asdict

from watchword.registration.aws_irsa.arn import CLUSTER_NAME, EksClusterArn
from watchword.registration.aws_irsa.errors import InvalidName

DELIMITER = "#"


class RoleTags(Struct, frozen=True):
    """A hub and a managed cluster as the tags of their roles name them, in alphabetical order of the keys.

    `InvalidName` when a value cannot name an account or a cluster; with a delimiter in it, two pairs could share roles.
    """

    hub_cluster_account_id: str
    hub_cluster_name: str
    managed_cluster_account_id: str
    managed_cluster_name: str

    def __post_init__(self) -> None:
        for key, value in self.as_dict().items():
            if CLUSTER_NAME.fullmatch(value) is None:
                raise InvalidName(
                    f"{key} {value[:200]!r} is malformed: use 1 to 100 letters, digits, '-' and '_', "
                    "and begin with a letter or digit"
                )

    @classmethod
    def of(cls, hub: EksClusterArn, managed: EksClusterArn) -> RoleTags:
        """Return the tags of two clusters; `InvalidName` when no role of one can be assumed from the other."""
        if hub.partition != managed.partition:
            raise InvalidName(
                f"cluster {managed} cannot join hub {hub}: roles cannot be assumed across the partitions "
                f"{managed.partition} and {hub.partition}; choose a hub in {managed.partition}"
            )
        return cls(hub.account, hub.name, managed.account, managed.name)

    def as_dict(self) -> dict[str, str]:
        """Return key and value of each tag."""
        return asdict(self)

    @property
    def identifier(self) -> str:
        """The md5 of the values, joined in the order of their keys: 32 hexadecimal digits."""
        joined = DELIMITER.join(value for _, value in sorted(self.as_dict().items()))
        return md5(joined.encode(), usedforsecurity=False).hexdigest()
