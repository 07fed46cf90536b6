"""`watchword registry-auth`: the token service of a registry, until it is told to stop."""

from datetime import UTC, datetime
from typing import Any

import click

from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import file_option, flag, many, option
from watchword.cli.process_options import read_tls, run_process, serving_options
from watchword.pullsecrets.registry_auth import (
    RegistryAuthOptions,
    TokenServiceOptions,
    load_signing_authority,
    run_registry_auth,
)
from watchword.runtime.clock import SystemClock


@click.command("registry-auth")
@click.option("--service", required=True, help="Service name of the registry's token configuration.")
@option("--issuer", default="watchword", help="Issuer of the registry's token configuration.")
@many("--audience", "audiences", help="Audience that tokens must have; repeatable; by default that of the API server.")
@file_option("--signing-key", required=True, help="Private key that signs registry tokens (PEM).")
@file_option(
    "--signing-certificate", required=True, help="Certificate of --signing-key (PEM); the registry's rootcertbundle."
)
@flag("--create-signing-key", help="Create key and certificate if neither file exists.")
@serving_options("127.0.0.1:5001")
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Run the token service of a registry: exchange Kubernetes tokens for registry tokens.

    Works with every registry that knows the Docker registry token specification. The API server decides:
    TokenReview says whose token it is, SubjectAccessReview on imagestreams/layers says what it may pull and push.
    """
    options, clock = options_of(flags), SystemClock()
    run_process(connection, lambda client, stop: run_registry_auth(client, options, clock=clock, stop=stop))


def options_of(flags: dict[str, Any]) -> RegistryAuthOptions:
    tls, service = read_tls(flags), TokenServiceOptions(flags["issuer"], flags["service"], flags["audiences"])
    key, certificate = flags["signing_key"], flags["signing_certificate"]
    authority = load_signing_authority(key, certificate, now=datetime.now(UTC), create=flags["create_signing_key"])
    return RegistryAuthOptions(service, flags["serve"], authority, tls, flags["health"])
