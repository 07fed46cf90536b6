"""`watchword dashboard`: every credential of the fleet in a browser, until it is told to stop."""

from typing import Any

import click

from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import flag, many
from watchword.cli.output import echo_line
from watchword.cli.process_options import read_tls, run_process, serving_options
from watchword.dashboard.process import DashboardOptions, ServedDashboard, require_loopback, run_dashboard
from watchword.runtime.clock import SystemClock


@click.command("dashboard")
@serving_options("127.0.0.1:0")
@flag("--login", help="Require a bearer token; each user sees what their token may read.")
@many("--name", "names", help="Host name that browsers use, besides loopback; repeatable.")
@flag("--https", "secure", help="Browsers connect through a proxy that serves TLS: mark cookies as Secure.")
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Show every credential of the fleet in a browser.

    On this machine, with the rights of the kubeconfig: open the address that is printed. It works once, and then
    another one is printed. With --login, each person signs in with a bearer token; the API server checks it
    (TokenReview), and the person sees what it allows them to read (SubjectAccessReview). The dashboard changes nothing.
    """
    options, clock = options_of(flags), SystemClock()

    def announce(served: ServedDashboard) -> None:
        served.viewers.sessions.redeemed = lambda: echo_line(f"opened; for another browser: {served.address()}")
        echo_line(f"the dashboard is at {served.address()}")

    run_process(
        connection, lambda client, stop: run_dashboard(client, options, clock=clock, stop=stop, started=announce)
    )


def options_of(flags: dict[str, Any]) -> DashboardOptions:
    serve, tls = flags["serve"] or ("127.0.0.1", 0), read_tls(flags)
    options = DashboardOptions(serve, flags["login"], flags["names"], flags["secure"], tls, flags["health"])
    require_loopback(options)
    return options
