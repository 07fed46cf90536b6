"""Finds out which credential of the fleet an entry of a kubeconfig is, by asking the hub and never the entry."""

import os
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from watchword.accounts.tokens import read_token
from watchword.addons.catalog import ADDON_CATALOG
from watchword.admin.errors import InvalidInput
from watchword.admin.revoke.pull_secret import find_pull_secrets
from watchword.admin.revoke.revocation import Revocation, RevocationTarget, TokenReviewProbe
from watchword.api.accounts import SELECTOR
from watchword.api.addon import AddonSubject
from watchword.api.bootstrap import USER_PREFIX
from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import SERVICE_ACCOUNT_USER_PREFIX, Label, agent_user, cluster_group, cluster_group_plain
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.credentials.lifecycle import BoundToken, read_bound_token
from watchword.kube.access_reviews import UserIdentity, review_token
from watchword.kube.client import Client
from watchword.kube.credentials import Credential, bearer
from watchword.kube.errors import ConfigError
from watchword.kube.files import read_small_file
from watchword.kube.kubeconfig import Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.tls import ClientCertificate
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import PkiError
from watchword.runtime.clock import Clock

MOST_FILES = 10_000


class HeldEntry(Struct, frozen=True):
    """One user of a kubeconfig, with its credential or the reason why there is none to read."""

    path: Path
    user: str
    credential: Credential | None = None
    unreadable: str = ""

    @property
    def token(self) -> Sensitive[str] | None:
        if self.credential is None or self.credential.authorization is None:
            return None
        return Sensitive(self.credential.authorization.reveal().removeprefix("Bearer "))

    @property
    def certificate(self) -> Certificate | None:
        if self.credential is None or self.credential.certificate is None:
            return None
        try:
            return parse_certificate(self.credential.certificate.chain)
        except PkiError:
            return None

    def __str__(self) -> str:
        return f"user {self.user} in {self.path}"


def read_held_entries(path: Path) -> list[HeldEntry]:
    """Return every user of a kubeconfig, or of all kubeconfigs in a folder; `InvalidInput` when there is none."""
    folder = path if path.is_dir() else path.parent
    entries: list[HeldEntry] = []
    for file in _files(path):
        try:
            entries += _read_file(file, folder.resolve())
        except ConfigError as objection:
            if file == path:
                raise InvalidInput(f"{path} is no kubeconfig: {objection}") from objection
    if not entries:
        raise InvalidInput(f"there is no kubeconfig with a user in {path}: name a kubeconfig or a folder with some")
    return entries


def _files(path: Path) -> Iterator[Path]:
    """Return the regular files; links are not followed, for a folder of unknown origin may point anywhere."""
    if not path.is_dir():
        yield path
        return
    found = (Path(root) / name for root, _, names in os.walk(path) for name in sorted(names))
    for count, file in enumerate(found):
        if count == MOST_FILES:
            raise InvalidInput(f"{path} has more than {MOST_FILES} files: name the folder with the kubeconfigs")
        if not file.is_symlink() and file.is_file():
            yield file


def _read_file(file: Path, folder: Path) -> list[HeldEntry]:
    data = read_small_file(file, "kubeconfig", limit=MAX_DOCUMENT_BYTES)
    config = parse_kubeconfig(data, folder=file.absolute().parent) if b"users" in data else Kubeconfig()
    return [_read_user(file, name, user, folder) for name, user in config.users.items()]


def _read_user(file: Path, name: str, user: UserEntry, folder: Path) -> HeldEntry:
    try:
        credential = _credential(user, folder)
    except ConfigError as objection:
        return HeldEntry(file, name, unreadable=str(objection))
    return HeldEntry(file, name, credential)


def _credential(user: UserEntry, folder: Path) -> Credential:
    """Return the credential; plugins are not run and files elsewhere not read, since another person chose them."""
    token = user.token.reveal().encode() if user.token else _content(user.token_file, folder)
    if token:
        return Credential(bearer(token))
    chain = user.certificate_data or _content(user.certificate_file, folder)
    key = user.key_data.reveal() if user.key_data else _content(user.key_file, folder)
    if chain and key:
        return Credential(certificate=ClientCertificate(chain, Sensitive(key)))
    if user.plugin is not None:
        raise ConfigError(
            f"its credential comes from the plugin {user.plugin.command}, which is not run: name what it stands for, "
            "as in `watchword revoke cluster NAME`"
        )
    if user.username:
        raise ConfigError("it holds a password: change it where the API server's authenticator keeps it")
    raise ConfigError("it holds neither a token nor a certificate with its key")


def _content(path: Path | None, folder: Path) -> bytes:
    if path is None:
        return b""
    if not path.resolve().is_relative_to(folder):
        raise ConfigError(f"its file {path} is outside of {folder}, and is not read: name the folder that holds both")
    return read_small_file(path, "file", limit=MAX_DOCUMENT_BYTES)


Authenticate: TypeAlias = Callable[[Credential], Awaitable[UserIdentity | None]]
"""Shows a credential to the hub; returns the identity that the hub finds, None when it refuses the credential."""

AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"


class Holding(Struct, frozen=True):
    """What one entry holds: a credential that can be revoked, or why it cannot be, with the next step."""

    entry: HeldEntry
    target: RevocationTarget | None = None
    identity: str = ""  # as the hub authenticates it; empty when it does not
    problem: str = ""
    is_harmless: bool = False  # the hub refuses it already


class HolderLookup(Struct, frozen=True):
    """Looks up on the hub whose credential an entry holds."""

    client: Client
    clock: Clock
    authenticate: Authenticate

    async def find(self, entry: HeldEntry) -> Holding:
        if entry.credential is None:
            return Holding(entry, problem=entry.unreadable)
        facts = None if entry.token is None else read_bound_token(entry.token.reveal())
        account = None if entry.token is None else await self._find_managed_account(entry.token, facts)
        if account is not None:
            return Holding(entry, RevocationTarget("serviceaccount", str(account)))
        who = await self.authenticate(entry.credential)
        if who is None and entry.token is not None and facts is not None:
            who = await review_token(self.client, entry.token, audiences=facts.audiences)
        if who is None:
            return await self._find_refused(entry)
        target = await self._find_target(who, facts)
        return Holding(entry, target, who.username, "" if target is not None else advise(who))

    async def _find_refused(self, entry: HeldEntry) -> Holding:
        """Distinguish an invalid credential from a certificate that another server of the hub may accept."""
        certificate = entry.certificate
        if certificate is not None and certificate.is_current(self.clock.now()):
            named = UserIdentity(certificate.subject.common_name, groups=certificate.subject.organisations)
            target = await self._find_addon(named) or await self._find_cluster(named)
            if target is not None:
                problem = (
                    "the API server refuses this certificate, but another server of this hub may accept it: run "
                    f"`watchword revoke {target}`"
                )
                return Holding(entry, identity=named.username, problem=problem)
        return Holding(entry, problem="the hub refuses it: nothing to revoke here", is_harmless=True)

    async def _find_target(self, who: UserIdentity, facts: BoundToken | None) -> RevocationTarget | None:
        if who.username.startswith(USER_PREFIX):
            return RevocationTarget("token", who.username.removeprefix(USER_PREFIX))
        if who.username.startswith(SERVICE_ACCOUNT_USER_PREFIX):
            return await self._find_account_target(service_account_key(who.username), facts)
        return await self._find_addon(who) or await self._find_cluster(who)

    async def _find_cluster(self, who: UserIdentity) -> RevocationTarget | None:
        for cluster in (await self.client.list(MANAGED_CLUSTERS)).items:
            name = cluster["metadata"]["name"]
            by_certificate = cluster_group(name) in who.groups and who.username.startswith(agent_user(name, ""))
            if by_certificate or cluster_group_plain(name) in who.groups:
                return RevocationTarget("cluster", name)
        return None

    async def _find_addon(self, who: UserIdentity) -> RevocationTarget | None:
        groups = tuple(group for group in who.groups if group != AUTHENTICATED)
        subject = AddonSubject(who.username, groups)
        for obj in (await self.client.list(MANAGED_CLUSTER_ADDONS)).items:
            key = ObjectKey.of(obj)
            if any(driver.subjects.is_own(key.namespace, key.name, subject) for driver in ADDON_CATALOG.drivers):
                return RevocationTarget("addon", str(key))
        return None

    async def _find_account_target(self, key: ObjectKey, facts: BoundToken | None) -> RevocationTarget | None:
        """Return the add-on or the pull secret for which a ServiceAccount's token was issued."""
        account = await self.client.find(SERVICE_ACCOUNTS, key)
        if account is None:
            return None
        needed = ADDON_CATALOG.subject_objects
        addons = [addon for row in needed if row.resource is SERVICE_ACCOUNTS for addon in row.addons_of(account)]
        if addons:
            return RevocationTarget("addon", str(addons[0]))
        bound = "" if facts is None else facts.secret_uid
        owned = [secret.uid for secret in await find_pull_secrets(self.client, account)] if bound else []
        return RevocationTarget("pull-secret", str(key)) if bound in owned else None

    async def _find_managed_account(self, token: Sensitive[str], facts: BoundToken | None) -> ObjectKey | None:
        """Return the managed service account of a token: the token is for another cluster than the hub."""
        secrets = (await self.client.list(SECRETS, labels=SELECTOR)).items
        found = [secret for secret in secrets if _is_of_same_account(secret, token, facts)]
        # A copy in the namespace of a cluster set is of the account there, which has a replica for each cluster.
        copies = [secret for secret in found if Label.ACCOUNT_NAMESPACE in labels_of(secret)]
        for secret in [*copies, *found]:
            held = read_token(secret)
            if held is not None:
                return ObjectKey(ObjectKey.of(secret).namespace, held.account)
        return None


def with_held_tokens(client: Client, revocation: Revocation, holdings: Sequence[Holding]) -> Revocation:
    found = [holding.entry for holding in holdings if holding.target == revocation.target and holding.identity]
    probes = [
        TokenReviewProbe(str(entry), client, token, _audiences(token)) for entry in found if (token := entry.token)
    ]
    return replace(revocation, probes=(*revocation.probes, *probes))


def _audiences(token: Sensitive[str]) -> tuple[str, ...]:
    facts = read_bound_token(token.reveal())
    return () if facts is None else facts.audiences


def _is_of_same_account(secret: Object, token: Sensitive[str], facts: BoundToken | None) -> bool:
    held = read_token(secret)
    if held is None:
        return False
    known = read_bound_token(held.token.reveal())
    same = known is not None and facts is not None and known.account_uid == facts.account_uid
    return held.token == token or (same and bool(facts and facts.account_uid))


def service_account_key(username: str) -> ObjectKey:
    namespace, _, name = username.removeprefix(SERVICE_ACCOUNT_USER_PREFIX).partition(":")
    return ObjectKey(namespace, name)


def advise(who: UserIdentity) -> str:
    """Say why a credential that the hub accepts is not revoked, and what to do instead."""
    if who.username.startswith(SERVICE_ACCOUNT_USER_PREFIX):
        key = service_account_key(who.username)
        return (
            f"ServiceAccount {key} belongs to no add-on and no account of the fleet: end its tokens with "
            f"`kubectl delete serviceaccount {key.name} -n {key.namespace}`"
        )
    if MASTERS in who.groups:
        return (
            f"{who.username} is in the group {MASTERS}, whose rights cannot be removed: replace the authority that "
            "signs client certificates of the hub"
        )
    return (
        f"Kubernetes cannot revoke a client certificate: remove {who.username} and its groups from all RoleBindings "
        "and ClusterRoleBindings of the hub"
    )
