"""`watchword completion`: shell code that completes commands and options."""

import click
from click.shell_completion import get_completion_class

from watchword.cli.output import echo

SHELLS = ("bash", "zsh", "fish")


@click.command("completion")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the shell code that completes commands.

    For bash, add to ~/.bashrc:  eval "$(watchword completion bash)"
    """
    kind = get_completion_class(shell)
    assert kind is not None, "the choice above names only shells that click knows"
    echo(kind(ctx.find_root().command, {}, "watchword", "_WATCHWORD_COMPLETE").source())
