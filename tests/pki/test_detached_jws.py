from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.sensitive import Sensitive
from watchword.pki.jwt import is_detached_signature, sign_detached

SONG = b"Hello from the other side. I must have called a thousand times."
HEADER = "eyJhbGciOiJIUzI1NiIsImtpZCI6Impvc2h1YSJ9"
PASSCODE = Sensitive("my voice is my passcode")
GOOD = f"{HEADER}..VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8"


@pytest.mark.parametrize(
    ("content", "secret", "signature"),
    [
        pytest.param(SONG, PASSCODE, "VShe2taLd-YTrmWuRkcL_8QTNDHYxQIEBsAYYiIj1_8", id="a text"),
        pytest.param(b"", PASSCODE, "7Ui1ALizW4jXphVUB7xUqC9vLYLL9RZeOFfVLoB7Tgk", id="no text"),
        pytest.param(SONG, Sensitive(""), "UfkqvDGiIFxrMnFseDj9LYJOLNrvjW8aHhF71mvvAs8", id="no secret"),
    ],
)
def test_signatures_are_those_of_kubernetes(content: bytes, secret: Sensitive[str], signature: str) -> None:
    assert sign_detached(content, key_id="joshua", secret=secret) == f"{HEADER}..{signature}"


def _header(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


SIGNATURE = GOOD.split("..")[1]
PAYLOAD = base64.urlsafe_b64encode(SONG).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "forged",
    [
        pytest.param("", id="empty"),
        pytest.param(".", id="one dot"),
        pytest.param("..", id="two dots"),
        pytest.param(f"{HEADER}..", id="no signature"),
        pytest.param(f"..{SIGNATURE}", id="no header"),
        pytest.param(f"{HEADER}.{PAYLOAD}.{SIGNATURE}", id="attached payload"),
        pytest.param(f"{HEADER}.{SIGNATURE}", id="one dot between"),
        pytest.param(f"{HEADER}...{SIGNATURE}", id="an extra dot"),
        pytest.param(f"{GOOD}.", id="a trailing dot"),
        pytest.param(f"{GOOD}=", id="padded signature"),
        pytest.param(f"{HEADER}==..{SIGNATURE}", id="padded header"),
        pytest.param(f"{GOOD}\n", id="trailing newline"),
        pytest.param(f" {GOOD}", id="leading space"),
        pytest.param(GOOD.replace("_", "/").replace("-", "+"), id="standard base64"),
        pytest.param(_header('{"alg":"none","kid":"joshua"}') + "..", id="algorithm none, no signature"),
        pytest.param(_header('{"alg":"none","kid":"joshua"}') + f"..{SIGNATURE}", id="algorithm none"),
        pytest.param(_header('{"alg":"RS256","kid":"joshua"}') + f"..{SIGNATURE}", id="another algorithm"),
        pytest.param(_header('{"alg":"HS256","kid":"gerald"}') + f"..{SIGNATURE}", id="another key id"),
        pytest.param(_header('{"kid":"joshua","alg":"HS256"}') + f"..{SIGNATURE}", id="keys in another order"),
        pytest.param(_header('{"alg": "HS256", "kid": "joshua"}') + f"..{SIGNATURE}", id="spaces in the header"),
        pytest.param(_header('{"alg":"HS256","kid":"joshua","crit":[]}') + f"..{SIGNATURE}", id="extra header"),
        pytest.param(GOOD.replace("e", "е", 1), id="a cyrillic letter"),  # noqa: RUF001 - the point of the row
        pytest.param("\ud800", id="a lone surrogate"),
    ],
)
def test_a_signature_that_differs_in_anything_is_refused(forged: str) -> None:
    assert not is_detached_signature(forged, SONG, key_id="joshua", secret=PASSCODE)


@given(position=st.integers(0, len(GOOD) - 1), character=st.characters())
@settings(max_examples=60)
def test_one_changed_character_is_enough_to_refuse(position: int, character: str) -> None:
    changed = GOOD[:position] + character + GOOD[position + 1 :]
    assert is_detached_signature(changed, SONG, key_id="joshua", secret=PASSCODE) == (changed == GOOD)


@given(
    content=st.binary(max_size=200), key_id=st.from_regex(r"[a-z0-9]{6}", fullmatch=True), secret=st.text(max_size=20)
)
@settings(max_examples=60)
def test_what_is_signed_is_verified_and_only_with_that_secret(content: bytes, key_id: str, secret: str) -> None:
    try:
        secret.encode()
    except UnicodeEncodeError:
        return
    signature = sign_detached(content, key_id=key_id, secret=Sensitive(secret))
    assert is_detached_signature(signature, content, key_id=key_id, secret=Sensitive(secret))
    assert not is_detached_signature(signature, content, key_id=key_id, secret=Sensitive(secret + "x"))
    assert not is_detached_signature(signature, content + b" ", key_id=key_id, secret=Sensitive(secret))
