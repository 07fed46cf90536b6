"""What a control plane must be told about access; `standard` says it as a real cluster would."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from watchword.apiserver.authz.model import Authorizer
from watchword.apiserver.model import Admit, Authenticate, Handler, Registry, Service
from watchword.apiserver.server import ResourcePlace


@dataclass(frozen=True)
class Access:
    """Who is let in, what happens to what they write, and what works beside the requests."""

    authenticate: Authenticate
    authorizer: Authorizer
    mutating: tuple[Admit, ...] = ()
    validating: tuple[Admit, ...] = ()
    handlers: Mapping[ResourcePlace, Handler] = field(default_factory=dict)
    paths: Mapping[str, Handler] = field(default_factory=dict)
    services: tuple[Service, ...] = ()


Compose = Callable[[Registry], Access]
"""Makes the access rules of a control plane from its registry."""
