"""Keys and certificates of one instance, in files that only their owner reads; renewed before they end."""

import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

from watchword.api.sensitive import Sensitive
from watchword.apiserver.access.chain import StaticToken
from watchword.apiserver.access.config import AccessConfig
from watchword.apiserver.access.rbac import SUPERUSERS
from watchword.apiserver.access.service_accounts import TokenKeys
from watchword.apiserver.serving.model import Now, User
from watchword.apiserver.store.model import StoreMissing, StoreOpenError
from watchword.http.server import serving_context
from watchword.pki.authority import CA_LIFETIME, Authority
from watchword.pki.certificates import Certificate, join_bundle, parse_certificate, verify_chain
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, Usage

ADMIN = User("kubernetes-admin", groups=(SUPERUSERS,))
SERVING_LIFETIME = timedelta(days=365)
RENEW_AT = 0.8
"""The part of its life after which a certificate is replaced."""
ANNOUNCED = timedelta(days=90)
"""A new CA is published this long before it signs anything, so that clients can learn of it."""


def ephemeral_access_config(now: Now) -> AccessConfig:
    authority = Authority.make("kubernetes", now=now())
    return AccessConfig(
        token_keys=TokenKeys(PrivateKey.generate()),
        authority=lambda: authority,
        root_bundle=lambda: authority.certificate.pem,
        client_authorities=lambda: (authority.certificate,),
        admin_tokens=(StaticToken(Sensitive(secrets.token_hex(32)), ADMIN),),
    )


def is_renewal_due(certificate: Certificate, now: datetime) -> bool:
    life = certificate.not_after - certificate.not_before
    return now >= certificate.not_before + life * RENEW_AT


class PkiDirectory:
    """Reads, makes and renews the files in the folder `pki` of the data directory."""

    def __init__(
        self,
        folder: Path,
        hosts: tuple[str, ...],
        now: Now,
        *,
        ca_lifetime: timedelta = CA_LIFETIME,
        in_use: bool = False,  # there are objects: credentials signed with these keys may exist
    ) -> None:
        if in_use:
            require_keys(folder, now())
        folder.mkdir(mode=0o700, exist_ok=True)
        self._folder = folder
        self._hosts = hosts
        self._now = now
        self._ca_lifetime = ca_lifetime
        with naming(folder / "service-accounts.key") as key:
            self.token_key = PrivateKey.from_pem(_once(key, PrivateKey.generate().pem.reveal()))
        made = _once(folder / "admin.token", secrets.token_hex(32).encode())
        self.admin_token = Sensitive(made.decode("ascii"))
        self.authorities = self._load_authorities()  # that have not ended, oldest first
        self.renew()

    @property
    def root_bundle(self) -> bytes:
        return join_bundle(self.trusted())

    def trusted(self) -> tuple[Certificate, ...]:
        return tuple(authority.certificate for authority in self.authorities)

    def signing_authority(self) -> Authority:
        """Return the newest CA that clients have had time to learn of."""
        now = self._now()
        announced = [each for each in self.authorities if each.certificate.not_before + ANNOUNCED <= now]
        return announced[-1] if announced else self.authorities[0]

    def renew(self) -> None:
        """Replace whatever is due; cheap when nothing is."""
        now = self._now()
        living = tuple(each for each in self.authorities if each.certificate.not_after > now)
        if not living or is_renewal_due(living[-1].certificate, now):
            living = (*living, self._make_authority(now))
        self.authorities = living
        self._renew_serving(now)
        write_private(self._folder / "ca.crt", self.root_bundle, mode=0o644)
        self.context: ssl.SSLContext = serving_context(
            str(self._folder / "serving.crt"), str(self._folder / "serving.key"), self.root_bundle
        )

    def _renew_serving(self, now: datetime) -> None:
        held = self._folder / "serving.crt"
        if held.exists() and held.with_suffix(".key").exists():
            certificate = parse_certificate(held.read_bytes())
            is_whole = certificate.key == PrivateKey.from_pem(held.with_suffix(".key").read_bytes()).public
            is_wanted = not is_renewal_due(certificate, now) and _answers_to(certificate, self._hosts)
            if is_whole and is_wanted and self._signed(certificate):
                return
        key = PrivateKey.generate()
        names = AlternativeNames.for_hosts(self._hosts)
        certificate = self.signing_authority().issue_serving(key.public, names, now=now, lifetime=SERVING_LIFETIME)
        write_private(self._folder / "serving.key", key.pem.reveal())
        write_private(held, certificate.pem, mode=0o644)

    def _signed(self, certificate: Certificate) -> bool:
        try:
            verify_chain(certificate, (self.signing_authority().certificate,), now=self._now(), usage=Usage.SERVER_AUTH)
        except PkiError:
            return False
        return True

    def _make_authority(self, now: datetime) -> Authority:
        number = 1 + max((int(file.stem.removeprefix("ca-")) for file in self._folder.glob("ca-*.key")), default=0)
        authority = Authority.make(f"watchword-ca-{number}", now=now, lifetime=self._ca_lifetime)
        # The key first: a certificate whose key is missing means that the key was lost.
        write_private(self._folder / f"ca-{number}.key", authority.key.pem.reveal())
        write_private(self._folder / f"ca-{number}.crt", authority.certificate.pem, mode=0o644)
        return authority

    def _load_authorities(self) -> tuple[Authority, ...]:
        found: list[Authority] = []
        for file in self._folder.glob("ca-*.crt"):
            with naming(file.with_suffix(".key")) as key:
                found.append(Authority.from_pem(file.read_bytes(), key.read_bytes()))
        return tuple(sorted(found, key=lambda each: each.certificate.not_before))


def require_keys(folder: Path, now: datetime) -> None:
    """Refuse to replace a lost signing key: every credential that it signed would be refused. Raises `StoreMissing`."""
    authorities = sorted(folder.glob("ca-*.crt")) or [folder / "ca-1.crt"]
    ended = [file for file in authorities if file.exists() and parse_certificate(file.read_bytes()).not_after <= now]
    keys = [file.with_suffix(".key") for file in authorities if file not in ended]
    for key in (folder / "service-accounts.key", *keys):
        if not key.exists():
            raise StoreMissing(
                f"{key} is gone, but the control plane has data: put it back from a backup (`watchword restore`), or "
                f"remove everything in {folder.parent} to begin anew; a new key would invalidate every credential"
            )


@contextmanager
def naming(path: Path) -> Iterator[Path]:
    try:
        yield path
    except (PkiError, OSError) as cause:
        raise StoreOpenError(f"{path}: {cause}; restore it from a backup, or begin anew in another folder") from cause


def _answers_to(certificate: Certificate, hosts: tuple[str, ...]) -> bool:
    names = AlternativeNames.for_hosts(hosts)
    return set(names.dns) <= set(certificate.names.dns) and set(names.ips) <= set(certificate.names.ips)


def _once(path: Path, fresh: bytes) -> bytes:
    """Return what a file holds; a file that does not exist is made."""
    if not path.exists():
        write_private(path, fresh)
    return path.read_bytes()


def write_private(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Put a file in place in one step, with its final mode from the first moment."""
    if path.exists() and path.read_bytes() == content:
        return
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
