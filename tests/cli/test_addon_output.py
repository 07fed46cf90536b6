"""Add-ons in a list: how their credentials fare, whichever agent obtained them."""

from __future__ import annotations

import pytest

from watchword.api.meta import Object
from watchword.api.names import ConditionType
from watchword.cli.addon import addon_row
from watchword.testing.builders import an_addon


def said(type_: str, status: str, reason: str, message: str = "") -> Object:
    return {"type": type_, "status": status, "reason": reason, "message": message}


@pytest.mark.parametrize(
    ("driver", "conditions", "expected"),
    [
        pytest.param("token", [], "-", id="nothing said"),
        pytest.param("token", [said("TokenRefreshed", "False", "TokenCreationFailed")], "TokenCreationFailed", id="no"),
        pytest.param(
            "token",
            [said("TokenRefreshed", "True", "AddonTokenRefreshed", "Addon token refreshed, expires at …")],
            "good",
            id="a token, told by a shipped agent",
        ),
        pytest.param(
            "csr",
            [said("TokenRefreshed", "True", "AddonTokenRefreshed")],
            "-",
            id="a token of before, left behind by a shipped agent that changed its driver",
        ),
        pytest.param("csr", [said("ClusterCertificateRotated", "True", "ClientCertificateUpdated")], "good", id="csr"),
    ],
)
def test_credential_of_an_addon(driver: str, conditions: list[Object], expected: str) -> None:
    available = said(ConditionType.ADDON_AVAILABLE, "True", "r")
    registrations = [{"type": "kubeClient", "kubeClient": {"driver": driver}}]
    status = {"registrations": registrations, "conditions": [available, *conditions]}

    assert addon_row({**an_addon("a", cluster="c"), "status": status}) == ("a", "c", "True", driver, expected)
