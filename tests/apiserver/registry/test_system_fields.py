from __future__ import annotations

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from watchword.apiserver.serving.write import make_uuid


@given(st.binary(min_size=16, max_size=16))
def test_identity_of_an_object_is_a_random_uuid(entropy: bytes) -> None:
    assert make_uuid(lambda _: entropy) == str(UUID(bytes=entropy, version=4))
