"""Counters, gauges and histograms in the text format of Prometheus.

The client library of Prometheus brings an HTTP server, an HTTP client and parsers of e-mail into every process that
imports it: a tenth of the start of an agent. Must be used on one thread.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Sample: TypeAlias = tuple[str, Mapping[str, str], float]
"""One number of a series: the suffix of its name, the labels that the suffix adds, and the value."""


class Series(Protocol):
    """The numbers under one set of label values."""

    def samples(self) -> Iterable[Sample]: ...


S = TypeVar("S", bound=Series)


class CounterSeries:
    """A number that only grows."""

    __slots__ = ("_value",)

    def __init__(self) -> None:
        self._value = 0.0

    def inc(self, amount: float = 1.0) -> None:
        self._value += amount

    def samples(self) -> Iterable[Sample]:
        return (("_total", {}, self._value),)


class GaugeSeries:
    """A number that is set, or read at every scrape."""

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: Callable[[], float] = float

    def set(self, value: float) -> None:
        self._read = lambda: value

    def set_function(self, read: Callable[[], float]) -> None:
        self._read = read

    def samples(self) -> Iterable[Sample]:
        return (("", {}, float(self._read())),)


class HistogramSeries:
    """Counts observations by upper bounds."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def samples(self) -> Iterator[Sample]:
        total = 0
        for bound, number in zip((*self._bounds, math.inf), self._counts, strict=True):
            total += number
            yield "_bucket", {"le": format_number(bound)}, total
        yield "_count", {}, total
        yield "_sum", {}, self._sum


class MetricFamily(Generic[S]):
    """The series of one metric; without labels there is exactly one, `labels()`."""

    def __init__(
        self, kind: str, name: str, documentation: str, label_names: tuple[str, ...], make_series: Callable[[], S]
    ) -> None:
        self.kind = kind
        self.name = name
        self.shown_name = f"{name}_total" if kind == "counter" else name
        self.documentation = documentation
        self.label_names = label_names
        self._make_series = make_series
        self._series: dict[tuple[str, ...], S] = {}
        if not label_names:
            self.labels()

    def labels(self, *values: str) -> S:
        found = self._series.get(values)
        if found is None:
            if len(values) != len(self.label_names):
                raise ValueError(f"{self.name} has the labels {', '.join(self.label_names)}: give a value for each")
            found = self._series[values] = self._make_series()
        return found

    def remove(self, *values: str) -> None:
        """Drop the series of these label values; `KeyError` when there is none."""
        del self._series[values]

    def samples(self) -> Iterator[tuple[str, dict[str, str], float]]:
        for values, series in self._series.items():
            own = dict(zip(self.label_names, values, strict=True))
            for suffix, labels, value in series.samples():
                yield self.name + suffix, {**own, **labels}, value


class CollectorRegistry:
    """The metrics of one process, in the order in which they were made."""

    def __init__(self) -> None:
        self._families: dict[str, MetricFamily[Series]] = {}

    @property
    def families(self) -> Iterable[MetricFamily[Series]]:
        return self._families.values()

    def counter(self, name: str, documentation: str, *labels: str) -> MetricFamily[CounterSeries]:
        """Add what counts something; its name is shown with `_total` at the end."""
        return self._add(MetricFamily("counter", name, documentation, labels, CounterSeries))

    def gauge(self, name: str, documentation: str, *labels: str) -> MetricFamily[GaugeSeries]:
        return self._add(MetricFamily("gauge", name, documentation, labels, GaugeSeries))

    def histogram(
        self, name: str, documentation: str, *labels: str, buckets: Sequence[float]
    ) -> MetricFamily[HistogramSeries]:
        """Add what counts observations by upper bounds, which must be in order."""
        return self._add(MetricFamily("histogram", name, documentation, labels, partial(HistogramSeries, buckets)))

    def _add(self, family: MetricFamily[S]) -> MetricFamily[S]:
        if family.name in self._families:
            raise ValueError(f"there are two metrics {family.name}: choose another name for one of them")
        self._families[family.name] = family  # type: ignore[assignment]  # its series are only read here
        return family

    def get_sample_value(self, name: str, labels: Mapping[str, str] | None = None) -> float | None:
        """Return one number; None when there is none under that name and exactly these labels."""
        wanted = dict(labels or {})
        found = (sample for family in self.families if name.startswith(family.name) for sample in family.samples())
        return next((value for shown, own, value in found if (shown, own) == (name, wanted)), None)

    def exposition(self, names: Collection[str] = ()) -> bytes:
        """Return every number in the text format, or only the metrics that are named, as they are shown."""
        families = (family for family in self.families if not names or family.shown_name in names)
        return "\n".join([*(line for family in families for line in _lines_of(family)), ""]).encode()


def _lines_of(family: MetricFamily[Series]) -> Iterator[str]:
    yield f"# HELP {family.shown_name} {_escape(family.documentation)}"
    yield f"# TYPE {family.shown_name} {family.kind}"
    for name, labels, value in family.samples():
        yield f"{name}{_format_labels(labels)} {format_number(value)}"


def format_number(value: float) -> str:
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"


def _format_labels(labels: Mapping[str, str]) -> str:
    pairs = [f'{name}="{_escape(value, quoted=True)}"' for name, value in labels.items()]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _escape(text: str, *, quoted: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quoted else escaped
