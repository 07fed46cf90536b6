"""`watchword help`: the help of any command, and the processes that the first screen leaves out."""

import click

from watchword.cli.main import PROCESSES, write_group
from watchword.cli.output import echo


@click.command("help")
@click.argument("words", nargs=-1, metavar="[COMMAND]...")
@click.pass_context
def command(ctx: click.Context, words: tuple[str, ...]) -> None:
    """Show the help of a command, or the processes and helpers."""
    root = ctx.find_root()
    if words == ("processes",):
        formatter = root.make_formatter()
        write_group(formatter, PROCESSES)
        echo(formatter.getvalue(), nl=False)
        return
    found, context = root.command, root
    for word in words:
        child = found.get_command(context, word) if isinstance(found, click.Group) else None
        if child is None:
            raise click.UsageError(f"there is no command {' '.join(words)!r}: `watchword --help` lists all")
        found, context = child, click.Context(child, info_name=word, parent=context)
    echo(found.get_help(context))
