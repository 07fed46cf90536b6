"""Counters, gauges and histograms in the text format of Prometheus.

The client library of Prometheus brings an HTTP server, an HTTP client and parsers of e-mail into every process that
imports it: a tenth of the start of an agent. Must be used on one thread.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """One number of a series: the suffix of its name, the labels that the suffix adds, and the value."""

    suffix: str
    labels: Mapping[str, str]
    value: float


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
        return (Sample("_total", {}, self._value),)


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
        return (Sample("", {}, float(self._read())),)


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
        """Yield the number of observations up to each bound, the number of all, and their sum."""
        total = 0
        for bound, number in zip((*self._bounds, math.inf), self._counts, strict=True):
            total += number
            yield Sample("_bucket", {"le": format_number(bound)}, total)
        yield Sample("_count", {}, total)
        yield Sample("_sum", {}, self._sum)


class MetricFamily(ABC, Generic[S]):
    """The series of one metric; without labels there is exactly one."""

    kind: ClassVar[str]

    def __init__(
        self, name: str, documentation: str, label_names: Sequence[str] = (), *, registry: CollectorRegistry
    ) -> None:
        self.name = name
        self.documentation = documentation
        self.label_names = tuple(label_names)
        self._series: dict[tuple[str, ...], S] = {}
        registry.register(self)
        if not self.label_names:
            self.labels()

    @property
    def shown_name(self) -> str:
        return self.name

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
        """Yield the name, the labels and the value of every number."""
        for values, series in self._series.items():
            own = dict(zip(self.label_names, values, strict=True))
            for suffix, labels, value in series.samples():
                yield self.name + suffix, {**own, **labels}, value

    @abstractmethod
    def _make_series(self) -> S:
        """Return a series without numbers yet."""


class Counter(MetricFamily[CounterSeries]):
    """Counts what happens; its name is shown with `_total` at the end."""

    kind = "counter"

    @property
    def shown_name(self) -> str:
        return f"{self.name}_total"

    def inc(self, amount: float = 1.0) -> None:
        """Add to a counter without labels."""
        self.labels().inc(amount)

    def _make_series(self) -> CounterSeries:
        return CounterSeries()


class Gauge(MetricFamily[GaugeSeries]):
    """Shows a present value."""

    kind = "gauge"

    def set(self, value: float) -> None:
        self.labels().set(value)

    def set_function(self, read: Callable[[], float]) -> None:
        """Read a gauge without labels at every scrape."""
        self.labels().set_function(read)

    def _make_series(self) -> GaugeSeries:
        return GaugeSeries()


class Histogram(MetricFamily[HistogramSeries]):
    """Counts observations by upper bounds, which must be in order."""

    kind = "histogram"

    def __init__(
        self,
        name: str,
        documentation: str,
        label_names: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._buckets = tuple(buckets)
        super().__init__(name, documentation, label_names, registry=registry)

    def observe(self, value: float) -> None:
        """Count one observation of a histogram without labels."""
        self.labels().observe(value)

    def _make_series(self) -> HistogramSeries:
        return HistogramSeries(self._buckets)


class CollectorRegistry:
    """The metrics of one process, in the order in which they were made."""

    def __init__(self) -> None:
        self._families: dict[str, MetricFamily[Series]] = {}

    @property
    def families(self) -> Iterable[MetricFamily[Series]]:
        return self._families.values()

    def register(self, family: MetricFamily[S]) -> None:
        """Add a metric; `ValueError` when there is one of that name."""
        if family.name in self._families:
            raise ValueError(f"there are two metrics {family.name}: choose another name for one of them")
        self._families[family.name] = family  # type: ignore[assignment]  # its series are only read here

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
