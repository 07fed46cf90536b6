"""What an attacker learns from the answers to wrong bootstrap tokens: nothing."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet

from watchword.discovery.token_secret import TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import Unauthorized


async def refusal_of(addons: AddonFleet, token: str) -> tuple[str, int]:
    with pytest.raises(Unauthorized) as refusal:
        await who_am_i(addons.as_token(token.encode()))
    return str(refusal.value), refusal.value.code


async def test_unknown_id_and_wrong_secret_get_the_same_answer(addons: AddonFleet) -> None:
    known, other = BootstrapToken.generate(), BootstrapToken.generate()
    await TokenStore(addons.client).create(TokenRecord(known))

    wrong_secret = await refusal_of(addons, f"{known.id}.{other.secret.reveal()}")
    unknown_id = await refusal_of(addons, other.reveal())
    no_token = await refusal_of(addons, "nonsense")

    assert wrong_secret == unknown_id == no_token
