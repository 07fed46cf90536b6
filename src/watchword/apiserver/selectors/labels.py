"""Label selectors of requests: what cannot be read is the client's fault."""

from __future__ import annotations

from watchword.api import selectors
from watchword.api.selectors import InvalidLabelKey, InvalidLabelValue, LabelSelector, SelectorError
from watchword.apiserver.errors import bad_request
from watchword.apiserver.field_errors import invalid
from watchword.apiserver.kinds.names import label_value, qualified_name

EVERYTHING = LabelSelector()


def parse_label_selector(text: str) -> LabelSelector:
    """Read a selector; 400 when it cannot be read."""
    if not text:
        return EVERYTHING
    try:
        return selectors.parse_label_selector(text)
    except InvalidLabelKey as refusal:
        raise bad_request(_worded("<nil>", refusal.key, qualified_name(refusal.key))) from None
    except InvalidLabelValue as refusal:
        raise bad_request(_worded(f"values[0][{refusal.key}]", refusal.value, label_value(refusal.value))) from None
    except SelectorError as refusal:
        raise bad_request(str(refusal)) from None


def _worded(path: str, value: str, complaints: list[str]) -> str:
    return f"unable to parse requirement: {invalid(path, value, '; '.join(complaints))}"
