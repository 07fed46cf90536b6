"""Label selectors of requests: what cannot be read is the client's fault."""

from __future__ import annotations

from watchword.api import selectors
from watchword.api.selectors import LabelSelector, SelectorError
from watchword.apiserver.errors import bad_request

EVERYTHING = LabelSelector()


def parse_label_selector(text: str) -> LabelSelector:
    """Read a selector; 400 when it cannot be read."""
    if not text:
        return EVERYTHING
    try:
        return selectors.parse_label_selector(text)
    except SelectorError as refusal:
        raise bad_request(str(refusal)) from None
