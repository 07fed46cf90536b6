"""Keys and certificates that live as long as the process: for tests and simulations."""

from __future__ import annotations

import secrets

from watchword.api.sensitive import Sensitive
from watchword.apiserver.access_config import AccessConfig
from watchword.apiserver.authn.static_tokens import StaticToken
from watchword.apiserver.authz.model import SUPERUSERS
from watchword.apiserver.model import Now, User
from watchword.apiserver.tokens.issuer import TokenKeys
from watchword.pki.authority import Authority
from watchword.pki.keys import PrivateKey

ADMIN = User("kubernetes-admin", groups=(SUPERUSERS,))


def ephemeral_access_config(now: Now) -> AccessConfig:
    """Return standard access rules with fresh keys and an administrator's token."""
    authority = Authority.make("kubernetes", now=now())
    return AccessConfig(
        token_keys=TokenKeys(PrivateKey.generate()),
        authority=lambda: authority,
        root_bundle=lambda: authority.certificate.pem,
        admin_tokens=(StaticToken(Sensitive(secrets.token_hex(32)), ADMIN),),
    )
