"""Makes text from elsewhere harmless to a terminal and to a log: it can neither move the cursor nor begin a line."""

import re

# Control characters (C0, DEL, C1), line and paragraph separators, bidirectional controls, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def escape_text(text: str, *, keep: str = "") -> str:
    """Return the text with every unsafe character written as JSON would escape it, except those to keep."""

    def escape(found: re.Match[str]) -> str:
        character = found.group()
        return character if character in keep else _SHORT.get(character) or f"\\u{ord(character):04x}"

    return _UNSAFE.sub(escape, text)


def is_safe_text(text: str, *, keep: str = "") -> bool:
    return escape_text(text, keep=keep) == text
