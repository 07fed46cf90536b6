"""The table of signing keys in docs/security.md names the keys of the code, and each key stays with its purpose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from watchword.addons.hub.certificate_approval import ADDON_SIGNING, read_signing_authority
from watchword.api.names import GRPC_SIGNER, KUBE_CLIENT_SIGNER, Label
from watchword.api.resources import SECRETS
from watchword.operator.pull_secret_manifests import SIGNING_SECRET
from watchword.pki.errors import PkiError
from watchword.registration.grpc.driver import SIGNER_SECRET

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
ROWS = re.findall(r"^\| (.+?) \| .+? \| .+? \|$", PAGE.split("## Signing keys")[1].split("\n## ")[0], re.MULTILINE)[1:]


@pytest.mark.parametrize(
    "name",
    [
        f"`{KUBE_CLIENT_SIGNER}`",
        f"`{SIGNER_SECRET}` (`{GRPC_SIGNER}`)",
        f"`{Label.KEY_PURPOSE}={ADDON_SIGNING}`",
        f"`{SIGNING_SECRET}`",
    ],
)
def test_table_names_the_key_of_the_code(name: str) -> None:
    assert [row for row in ROWS if name in row]


def test_key_of_the_grpc_server_is_refused_for_add_ons() -> None:
    secret = SECRETS.manifest(SIGNER_SECRET, data={})

    with pytest.raises(PkiError, match=f"has no label {Label.KEY_PURPOSE}={ADDON_SIGNING}"):
        read_signing_authority(secret)
