"""`watchword grpc-server`: serves agents that reach the hub over gRPC, until it is told to stop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import file_option, option, text
from watchword.cli.process_options import LISTEN_HELP, HostPort, run_process

if TYPE_CHECKING:
    from watchword.kube.client import Client
    from watchword.registration.grpc.server.process import GrpcServerOptions


@click.command("grpc-server")
@option("--serve", type=HostPort(), default="0.0.0.0:8090", help="Address to serve agents on.")
@file_option("--tls-cert-file", required=True, help="Certificate chain of the server (PEM).")
@file_option("--tls-key-file", required=True, help="Private key of --tls-cert-file (PEM).")
@file_option(
    "--client-ca-file",
    required=True,
    help="CA bundle that verifies agents' certificates: that of the signer open-cluster-management.io/grpc.",
)
@text("--listen", "health", type=HostPort(), help=LISTEN_HELP)
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Serve agents that reach the hub over gRPC.

    Agents register, renew their leases, and receive add-ons and work over one connection. Any number of replicas may
    run behind one address: all state is in the API server. Changed files are read without a restart.
    """
    from watchword.http.limits import raise_descriptor_limit

    raise_descriptor_limit()  # each agent holds a connection
    options = options_of(flags)
    run_process(connection, lambda client, stop: serve(client, options, stop))


def options_of(flags: dict[str, Any]) -> GrpcServerOptions:
    from watchword.registration.grpc.server.listener import TlsFiles
    from watchword.registration.grpc.server.process import GrpcServerOptions

    files = TlsFiles(flags["tls_cert_file"], flags["tls_key_file"], flags["client_ca_file"])
    return GrpcServerOptions(serve=flags["serve"], tls=files, health=flags["health"])


async def serve(client: Client, options: GrpcServerOptions, stop: asyncio.Event) -> None:
    from watchword.registration.grpc.server.process import run_grpc_server
    from watchword.runtime.clock import SystemClock

    await run_grpc_server(client, options, clock=SystemClock(), stop=stop)
