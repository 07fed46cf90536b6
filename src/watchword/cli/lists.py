"""What every list has in common: which objects, in which order, in which form, and every change until interrupted."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import click
import orjson
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, Resource, labels_of
from watchword.cli.connection_options import ClusterConnection
from watchword.cli.options import F, flag, gathered, named, output_option, text
from watchword.cli.output import echo, echo_line, fill_template, format_document, print_table, without_managed_fields

if TYPE_CHECKING:
    from watchword.kube.client import Client

T = TypeVar("T")
UNREADABLE = "unreadable"
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")


class ListRequest(Struct, frozen=True):
    """What was asked of a list."""

    output: str = "table"
    namespace: str = ""  # empty: all
    selector: str = ""
    sort_by: str = ""
    watch: bool = False


class Listing(Struct, Generic[T], frozen=True, kw_only=True):
    """How the items of one kind are read and shown."""

    resource: Resource | None  # None: documents are printed as a bare list, and cannot be watched
    columns: Sequence[str]
    read: Callable[[Client, ListRequest], Awaitable[Sequence[T]]]
    of_object: Callable[[Object], T] | None = None  # the item of one watched object; None: a change reads all again
    row: Callable[[T, datetime], Sequence[str]]  # one cell for each column, and for each wide one
    wide: Sequence[str] = ()  # columns that only `-o wide` shows
    document: Callable[[T], Object]
    name: Callable[[T], str] | None = None  # what `-o name` prints; by default the kind and the name
    empty: str = ""  # printed when there is nothing
    separate: bool = False  # print documents one by one instead of as a list

    def show(self, items: Sequence[T], request: ListRequest, *, heading: bool = True) -> None:
        now, form = datetime.now(UTC), request.output
        ordered = self._sorted([(item, self._cells(item, now)) for item in items], request.sort_by)
        if form in ("table", "wide"):
            columns = [*self.columns, *self.wide] if form == "wide" else self.columns
            rows = [cells[: len(columns)] for _, cells in ordered]
            if not rows and heading and self.empty:
                echo_line(self.empty)
            else:
                print_table(columns, rows, wide=form == "wide", heading=heading)
            return
        if form == "name":
            for item, _ in ordered:
                echo_line(self.name(item) if self.name is not None else self._name(item))
            return
        documents = [self.document(item) for item, _ in ordered]
        if self.separate and form in ("json", "yaml"):
            echo(("---\n" if form == "yaml" else "").join(format_document(each, form) for each in documents), nl=False)
        elif self.resource is None:
            echo(format_document(documents, form), nl=False)
        else:
            head = {"apiVersion": self.resource.api_version, "kind": f"{self.resource.kind}List"}
            echo(format_document({**head, "items": documents}, form), nl=False)

    def _name(self, item: T) -> str:
        assert self.resource is not None
        kind, group, name = self.resource.kind.lower(), self.resource.group, self.document(item)["metadata"]["name"]
        return f"{kind}.{group}/{name}" if group else f"{kind}/{name}"

    def _cells(self, item: T, now: datetime) -> Sequence[str]:
        """Return the cells; one item that cannot be read must not hide the others."""
        try:
            return self.row(item, now)
        except Exception:  # noqa: BLE001 - its message may quote the content
            key = ObjectKey.of(self.document(item))
            known = {"NAME": key.name, "CLUSTER": key.namespace, "NAMESPACE": key.namespace}
            return [known.get(name, UNREADABLE) for name in (*self.columns, *self.wide)]

    def _sorted(self, rows: list[tuple[T, Sequence[str]]], sort_by: str) -> list[tuple[T, Sequence[str]]]:
        if not sort_by:
            return rows
        columns = [*self.columns, *self.wide]
        name = sort_by.upper().replace("-", " ")
        if name in columns:
            return sorted(rows, key=lambda row: sort_key(row[1][columns.index(name)]))
        if not sort_by.startswith((".", "{")):
            known = ", ".join(column.lower().replace(" ", "-") for column in columns)
            raise click.BadParameter(
                f"{sort_by!r} is no column: choose from {known}, or give a path like .metadata.name",
                param_hint="--sort-by",
            )
        return sorted(rows, key=lambda row: sort_key(fill_template(self.document(row[0]), sort_by)))


def sort_key(cell: str) -> tuple[Any, ...]:
    """Return the key of a cell: durations by length, numbers in names by value."""
    found = _DURATION.fullmatch(cell)
    if cell and found is not None:
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return (0, ((days * 24 + hours) * 60 + minutes) * 60 + seconds, ())
    parts = re.split(r"(\d+)", cell)
    return (1, 0, tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts if part))


def of_objects(resource: Resource) -> Callable[[Client, ListRequest], Awaitable[list[Object]]]:
    async def read(client: Client, request: ListRequest) -> list[Object]:
        from watchword.health.hub_reader import require_hub

        await require_hub(client)
        return (await client.list(resource, namespace=request.namespace, labels=request.selector)).items

    return read


def object_listing(
    resource: Resource, columns: Sequence[str], row: Callable[[Object, datetime], Sequence[str]], **more: Any
) -> Listing[Object]:
    reading = {"read": of_objects(resource), "of_object": without_managed_fields} if "read" not in more else {}
    return Listing(resource=resource, columns=columns, row=row, document=without_managed_fields, **{**reading, **more})


def select_names(clusters: Iterable[Object], selector: str) -> frozenset[str] | None:
    """Return which clusters a label selector chooses, None for all; `click.BadParameter`."""
    from watchword.api.selectors import SelectorError, parse_label_selector

    try:
        wanted = parse_label_selector(selector)
    except SelectorError as refusal:
        raise click.BadParameter(str(refusal), param_hint="--selector") from refusal
    chosen = (each["metadata"]["name"] for each in clusters if wanted.matches(labels_of(each)))
    return frozenset(chosen) if selector else None


def list_options(where: str = "", *, cluster: bool = False, watched: bool = True) -> Callable[[F], F]:
    """Add the flags of a list; the command gets `request`. `where` says what `-n` means; without it, it is hidden."""
    names = ("--cluster", "--namespace", "-n", "namespace") if cluster else ("--namespace", "-n")

    def request(
        *, all_namespaces: bool, namespace: str, watch: bool, output: str, selector: str, sort_by: str
    ) -> ListRequest:
        if all_namespaces and namespace:
            raise click.UsageError(f"give {names[0]} or --all-namespaces, not both")
        if watch and not watched:
            raise click.UsageError("this list cannot be watched: `watchword status --watch` shows every change")
        return ListRequest(output, namespace, selector, sort_by, watch)

    return gathered(
        "request",
        request,
        named(*names, default="", hidden=not where, help=where or "Ignored: these objects have no namespace."),
        flag("--all-namespaces", "-A", hidden=not where, help="List all namespaces (default)."),
        named("--selector", "-l", default="", help="Label selector: list only what matches."),
        text("--sort-by", help="Column, or JSONPath like .metadata.name, by which the list is sorted."),
        flag("--watch", "-w", hidden=not watched, help="Print every change until interrupted."),
        output_option("wide", "name"),
    )


def print_list(connection: ClusterConnection, listing: Listing[T], request: ListRequest) -> None:
    """Read and print a list; with `-w`, then every item that changes."""

    async def once(client: Client) -> None:
        listing.show(await listing.read(client, request), request)

    async def follow(client: Client) -> None:
        from watchword.kube.watch import Bookmark, ObjectChange, list_and_watch

        assert listing.resource is not None
        shown: dict[str, Object] = {}
        updates = list_and_watch(client, listing.resource, namespace=request.namespace, labels=request.selector)
        async for update in updates:
            if isinstance(update, Bookmark):
                continue
            if listing.of_object is not None and isinstance(update, ObjectChange):
                items = [listing.of_object(orjson.loads(update.raw))] if update.type != "DELETED" else []
            else:
                items = list(await listing.read(client, request))
            documents = [(item, listing.document(item)) for item in items]
            fresh = [item for item, document in documents if shown.get(_identity(document)) != document]
            if fresh or not shown:
                listing.show(fresh, request, heading=not shown)
            shown |= {_identity(document): document for _, document in documents}

    with suppress(KeyboardInterrupt):
        connection.run(follow if request.watch else once)


def _identity(document: Object) -> str:
    metadata = document.get("metadata") or document
    return f"{metadata.get('namespace', '')}/{metadata.get('name') or metadata.get('secret') or metadata.get('token')}"
