"""What the built-in controllers are made of."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec import Struct

from watchword.apiserver.authz.model import Authorizer
from watchword.apiserver.csr.signers import LONGEST_LIFETIME
from watchword.apiserver.model import Now, Registry
from watchword.apiserver.tokens.issuer import TokenIssuer
from watchword.pki.authority import Authority


class ControllerContext(Struct, frozen=True):
    """Everything of one control plane that its controllers work with."""

    registry: Registry
    now: Now
    authorizer: Authorizer
    authority: Callable[[], Authority]  # signs client and node certificates; read each time, for rotation
    root_bundle: Callable[[], bytes]  # PEM: what clients verify this plane by
    issuer: TokenIssuer
    certificate_lifetime: timedelta = LONGEST_LIFETIME
