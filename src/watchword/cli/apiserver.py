"""`watchword apiserver`: one embedded control plane on a socket, until it is stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from watchword.api.names import IMAGE_NAME
from watchword.cli.options import file_option, flag, folder_option, option, parse_duration_flag, text
from watchword.cli.output import echo

if TYPE_CHECKING:
    from watchword.apiserver.instance import Instance


@click.command("apiserver")
@folder_option(
    "--data-dir",
    required=True,
    help="Directory for the database, the keys and the administrator's kubeconfig (mode 0700).",
)
@option("--port", type=click.IntRange(0, 65535), default=6443, help="Port to listen on; 0 selects a free one.")
@option("--bind-address", "host", default="127.0.0.1", help="Address to listen on.")
@text("--advertise-address", "advertise", help="Host name or address that clients use; by default --bind-address.")
@file_option("--audit-log", help="Write an audit log to this file: one line per request, without bodies.")
@file_option(
    "--encryption-key-file",
    help="Encrypt Secrets in the data file with the first key of this file (base64, 32 bytes, one per line).",
)
@file_option(
    "--authentication-token-webhook-config-file",
    "webhook",
    help="Kubeconfig of a token webhook for tokens that this server did not issue; answers are cached for ten seconds.",
)
@option(
    "--synchronous",
    type=click.Choice(["FULL", "NORMAL"]),
    default="FULL",
    help="SQLite's synchronous mode; NORMAL is faster and can lose the last writes on a power failure.",
)
@click.option(
    "--max-bytes", type=click.IntRange(0), default=0, help="Refuse writes when the database is larger; 0 for no limit."
)
@option("--event-ttl", default="1h", help="How long Events are kept after their last write.")
@flag("--node", help="Run pods of Watchword's image as processes of this user.")
@option(
    "--node-image",
    "node_images",
    multiple=True,
    default=("watchword", IMAGE_NAME),
    help="Images that --node runs, separated by commas.",
)
def command(**flags: Any) -> None:
    """Run a Kubernetes API in one process.

    The administrator's kubeconfig is written to admin.kubeconfig in the data directory. Stop it with
    Ctrl-C or SIGTERM; requests in progress are finished first, unless a second signal follows.
    """
    import gc
    from datetime import UTC, datetime

    from msgspec.structs import replace

    gc.disable()  # until it serves: what is made on the way there stays
    from watchword.apiserver.instance import Instance, InstanceSettings
    from watchword.http.limits import raise_descriptor_limit
    from watchword.local.workloads import WORKLOADS
    from watchword.runtime.event_loop import run

    raise_descriptor_limit()
    # The workloads of a node have folders of their own to start from, so a relative path would lead them astray.
    webhook = flags.pop("webhook")
    flags["data_dir"] = flags["data_dir"].absolute()
    flags["event_ttl"] = parse_duration_flag(flags["event_ttl"], "--event-ttl")
    images = flags.pop("node_images")
    flags["node"] = replace(WORKLOADS, images=images) if flags["node"] else None
    reviewer = None
    if webhook is not None:
        from watchword.kube.access_reviews import TokenReviewClient

        reviewer = TokenReviewClient.connect(webhook)
    run(_serve(Instance(InstanceSettings(**flags, reviewer=reviewer), lambda: datetime.now(UTC))))


async def _serve(instance: Instance) -> None:
    import asyncio
    import gc

    from watchword.runtime.event_loop import stop_on_signals

    stop = asyncio.Event()
    with stop_on_signals(stop):
        await instance.start()
        # Objects made by imports are never garbage: exempt them from collection.
        gc.freeze()
        gc.enable()
        echo(f"serving {instance.server}\nexport KUBECONFIG={instance.kubeconfig.absolute()}")
        await stop.wait()
        await instance.stop()
