"""The subject of an add-on whose credential is a certificate, and the certificate it needs."""

from __future__ import annotations

from hashlib import sha256

from msgspec.structs import replace

from watchword.api.addon import CUSTOM_SIGNER, Addon, AddonSubject, Registration, certificate_subject
from watchword.api.meta import Object
from watchword.api.names import SERVICE_ACCOUNT_USER_PREFIX, addon_fleet_group, addon_group, addon_user
from watchword.api.resources import ROLES
from watchword.api.validation import is_dns_label
from watchword.registration.interface import CredentialSubject, WantedCredential


def is_own_certificate(cluster: str, addon: str, subject: AddonSubject) -> bool:
    """Whether a subject is one that this add-on's certificate may have."""
    agent = subject.user.removeprefix(addon_user(cluster, addon, ""))
    own = {addon_group(cluster, addon)}
    fleet = own | {addon_fleet_group(addon)}
    known = (own, fleet, fleet | {"system:authenticated"})
    rebuilt = subject.user == addon_user(cluster, addon, agent) and is_dns_label(agent)
    return rebuilt and set(subject.groups) in known and not subject.organization_units


def certificate_subject_in_reused_name(cluster: str, addon: str, cluster_uid: str) -> AddonSubject:
    """Return the subject where an earlier cluster had the name: none of that one's certificates has this user name."""
    default = certificate_subject(cluster, addon)
    agent = default.user.removeprefix(addon_user(cluster, addon, ""))
    unique = f"{agent[:50].rstrip('-')}-{sha256(cluster_uid.encode()).hexdigest()[:12]}"
    return replace(default, user=addon_user(cluster, addon, unique))


def choose_certificate_subject(addon: Addon, registration: Registration) -> AddonSubject:
    """Return the subject that the add-on's hub controller chose, else the default.

    A ServiceAccount is left over from another driver.
    """
    chosen = registration.subject
    if chosen.user and not chosen.user.startswith(SERVICE_ACCOUNT_USER_PREFIX):
        return chosen
    default = certificate_subject(addon.cluster, addon.name)
    return default if registration.type != CUSTOM_SIGNER else AddonSubject(default.user)


def wanted_certificate(addon: Addon, registration: Registration) -> WantedCredential:
    """Return the request for a certificate with the declared subject."""
    declared = registration.subject
    return WantedCredential(
        addon.cluster,
        CredentialSubject(declared.user, declared.groups, declared.organization_units),
        addon=addon.name,
        signer=registration.signer,
        rotation=addon.rotation_request,
    )


def rbac_group(cluster: str, addon: str, _subject: AddonSubject) -> Object:
    """Return the group that bindings name.

    Not the group of the add-on on all clusters: it would let every cluster's agent into every other's namespace.
    """
    return {"kind": "Group", "apiGroup": ROLES.group, "name": addon_group(cluster, addon)}
