"""Cron schedules: five fields or a name such as `@hourly`, read as CronJobs read them."""

from datetime import datetime, timedelta

from msgspec import Struct

_NAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTHS = {name: number for number, name in enumerate(_MONTH_NAMES, start=1)}
_DAYS = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
# lowest, highest, names
_FIELDS: tuple[tuple[int, int, dict[str, int]], ...] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, _MONTHS),
    (0, 6, _DAYS),
)
_FURTHEST = timedelta(days=5 * 366)  # a schedule such as 30 February never comes


class BadSchedule(ValueError):
    """The text is not a schedule; the message contains the reason."""


class Schedule(Struct, frozen=True):
    """The minutes at which something is due."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first due minute after an instant, in that instant's zone; None when it never comes."""
        due = instant.replace(second=0, microsecond=0) + timedelta(minutes=1)
        limit = due + _FURTHEST
        while due < limit:
            if due.month not in self.months or not self._is_day(due):
                due = due.replace(hour=0, minute=0) + timedelta(days=1)
            elif due.hour not in self.hours:
                due = due.replace(minute=0) + timedelta(hours=1)
            elif due.minute not in self.minutes:
                due += timedelta(minutes=1)
            else:
                return due
        return None

    def _is_day(self, due: datetime) -> bool:
        day, weekday = due.day in self.days, due.isoweekday() % 7 in self.weekdays
        # When both are restricted, either suffices.
        return day and weekday if self.any_day or self.any_weekday else day or weekday


def parse_schedule(text: str) -> Schedule:
    """Read a schedule; raises BadSchedule."""
    if not text:
        raise BadSchedule("empty spec string")
    if text.startswith("@"):
        if text not in _NAMES:
            raise BadSchedule(f"unrecognized descriptor: {text}")
        text = _NAMES[text]
    fields = text.split()
    if len(fields) != len(_FIELDS):
        raise BadSchedule(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, hours, days, months, weekdays = (_values(each, *rule) for each, rule in zip(fields, _FIELDS, strict=True))
    any_day, any_weekday = (fields[i][0] in "*?" for i in (2, 4))
    return Schedule(minutes, hours, days, months, weekdays, any_day=any_day, any_weekday=any_weekday)


def _values(field: str, low: int, high: int, names: dict[str, int]) -> frozenset[int]:
    return frozenset(value for part in field.split(",") for value in _range(part, low, high, names))


def _range(part: str, low: int, high: int, names: dict[str, int]) -> range:
    span, _, step_text = part.partition("/")
    step = _number(step_text, {}) if step_text else 1
    if step == 0:
        raise BadSchedule(f"step of range should be a positive number: {part}")
    if span in ("*", "?"):
        return range(low, high + 1, step)
    first, _, last = span.partition("-")
    start = _number(first, names)
    end = _number(last, names) if last else high if step_text else start
    if start < low:
        raise BadSchedule(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise BadSchedule(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise BadSchedule(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    return range(start, end + 1, step)


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise BadSchedule(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    return int(text)
