"""How `join` and `rejoin` find the hub: by kubeadm's flags or by clusteradm's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from msgspec import Struct
from msgspec.structs import replace

from watchword.cli.common_options import with_options
from watchword.cli.discovery_options import DiscoveryFlags, DiscoveryPlan, choose_plan, discovery_flags
from watchword.cli.secret_input import HELP, TOKEN_VARIABLE, SecretReader

if TYPE_CHECKING:
    from watchword.admin.bootstrap_access import BootstrapAccess, HubAddress
    from watchword.discovery.polling import Progress

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS = (
    click.option("--hub-token", default="", help=f"A token of the hub, of whatever kind. {HELP}."),
    click.option("--hub-apiserver", default="", help="The https address of the hub; goes with --hub-token."),
    click.option(
        "--ca-file",
        type=click.Path(path_type=Path, dir_okay=False),
        help="The authority (PEM) to trust for --hub-apiserver; a bootstrap token finds it by itself.",
    ),
)


class HubPlan(Struct, frozen=True):
    """How the hub will be found, by one of two ways."""

    by_discovery: DiscoveryPlan | None
    by_address: HubAddress | None
    timeout: timedelta

    async def find(self, progress: Progress) -> BootstrapAccess:
        """Find the hub and make sure that it is the one; raises `DiscoveryError` or `AdminError`."""
        from watchword.admin.bootstrap_access import BootstrapAccess, find_hub
        from watchword.api.sensitive import Sensitive
        from watchword.discovery.client_factory import HttpsClientFactory
        from watchword.discovery.discover import ClusterDiscovery
        from watchword.discovery.polling import PollOptions

        if self.by_address is not None:
            return await find_hub(
                ClusterDiscovery(HttpsClientFactory(), PollOptions(self.timeout), progress), self.by_address
            )
        assert self.by_discovery is not None  # one of the two
        if self.by_discovery.tls_token is None:
            raise click.UsageError("say who asks: --tls-bootstrap-token goes with --discovery-file")
        return BootstrapAccess(
            await self.by_discovery.discover(progress), Sensitive(self.by_discovery.tls_token.reveal())
        )


def choose_hub_plan(
    given: DiscoveryFlags, hub_token: str, hub_apiserver: str, ca_file: Path | None, timeout: timedelta
) -> HubPlan:
    """Decide on one way to the hub; raise `click.UsageError` when the flags mix both."""
    secrets = SecretReader()
    if not (hub_token or hub_apiserver or ca_file):
        return HubPlan(choose_plan(given, secrets, timeout=timeout), None, timeout)
    if replace(given, pins=()) != DiscoveryFlags():
        raise click.UsageError(
            "--hub-token and --hub-apiserver are one way to name the hub, HOST:PORT with --token or --discovery-file "
            "the other: use one of them"
        )
    token = secrets.read(hub_token) if hub_token else secrets.from_environment()
    if not token:
        raise click.UsageError(f"--hub-apiserver needs --hub-token (@FILE and - work), or ${TOKEN_VARIABLE}")
    if not hub_apiserver:
        raise click.UsageError("--hub-token needs --hub-apiserver, the https address of the hub")
    return HubPlan(None, _address(token, hub_apiserver, ca_file, given.pins), timeout)


def _address(token: str, server: str, ca_file: Path | None, pins: tuple[str, ...]) -> HubAddress:
    from watchword.admin.bootstrap_access import HubAddress
    from watchword.api.sensitive import Sensitive
    from watchword.discovery.addresses import parse_endpoint
    from watchword.kube.files import read_small_file
    from watchword.pki.keys import Pin

    return HubAddress(
        parse_endpoint(server),
        Sensitive(token),
        b"" if ca_file is None else read_small_file(ca_file, "CA file", limit=1024 * 1024),
        tuple(Pin.parse(part.strip()) for text in pins for part in text.split(",")),
    )


def hub_access_options(command: F) -> F:
    """Add the flags of both ways; the command gets `hub`, which makes the `HubPlan` when it is called."""

    @with_options(*OPTIONS)
    @discovery_flags
    @wraps(command)
    def with_hub(
        *args: Any,
        given: DiscoveryFlags,
        discovery_timeout: timedelta,
        hub_token: str,
        hub_apiserver: str,
        ca_file: Path | None,
        **kwargs: Any,
    ) -> Any:
        def hub() -> HubPlan:
            return choose_hub_plan(given, hub_token, hub_apiserver, ca_file, discovery_timeout)

        return command(*args, hub=hub, **kwargs)

    return with_hub  # type: ignore[return-value]  # a command stays a command
