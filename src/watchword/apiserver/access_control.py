"""The access settings of a control plane; `access_config` builds them as a real cluster has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec import Struct, field

from watchword.apiserver.authz.model import Authorizer
from watchword.apiserver.model import Admit, Authenticate, Handler, Registry, Service
from watchword.apiserver.server import ResourceRoute


class AccessControl(Struct, frozen=True):
    """Authentication, authorization, admission, and the services that run beside the requests."""

    authenticate: Authenticate
    authorizer: Authorizer
    mutating: tuple[Admit, ...] = ()
    validating: tuple[Admit, ...] = ()
    handlers: Mapping[ResourceRoute, Handler] = field(default_factory=dict)
    paths: Mapping[str, Handler] = field(default_factory=dict)
    services: tuple[Service, ...] = ()


AccessControlFactory = Callable[[Registry], AccessControl]
"""Makes the access rules of a control plane from its registry."""
