"""Add-ons register with client certificates: of the hub's signer, or of signers of their own."""

from hashlib import sha256

from msgspec.structs import replace

from watchword.addons.driver import AddonDriver, AddonSubjects, RequestsAddonCertificate
from watchword.api.addon import CUSTOM_SIGNER, Addon, AddonSubject, Registration, certificate_subject
from watchword.api.meta import Object
from watchword.api.names import SERVICE_ACCOUNT_USER_PREFIX, ConditionType, addon_fleet_group, addon_group, addon_user
from watchword.api.resources import ROLES
from watchword.api.validation import is_dns_label
from watchword.credentials.driver import (
    AgentContext,
    AgentDriver,
    CredentialCondition,
    CredentialKind,
    CredentialSubject,
    WantedCredential,
)


class CertificateSubjects(AddonSubjects):
    """User names that begin with cluster and add-on, in the groups of the add-on."""

    def default(self, cluster: str, addon: str) -> AddonSubject:
        return certificate_subject(cluster, addon)

    def is_own(self, cluster: str, addon: str, subject: AddonSubject) -> bool:
        agent = subject.user.removeprefix(addon_user(cluster, addon, ""))
        own = {addon_group(cluster, addon)}
        fleet = own | {addon_fleet_group(addon)}
        known = (own, fleet, fleet | {"system:authenticated"})
        rebuilt = subject.user == addon_user(cluster, addon, agent) and is_dns_label(agent)
        return rebuilt and set(subject.groups) in known and not subject.organization_units

    def choose(self, addon: Addon, registration: Registration) -> AddonSubject:
        """Return the subject that the add-on's hub controller chose, else the default.

        A ServiceAccount is left over from another driver.
        """
        chosen = registration.subject
        if chosen.user and not chosen.user.startswith(SERVICE_ACCOUNT_USER_PREFIX):
            return chosen
        default = certificate_subject(addon.cluster, addon.name)
        return default if registration.type != CUSTOM_SIGNER else AddonSubject(default.user)

    def rbac_subject(self, cluster: str, addon: str, subject: AddonSubject) -> Object:  # noqa: ARG002 - the group is enough
        """Return the group that bindings name.

        Not the group of the add-on on all clusters: it would let every cluster's agent into every other's namespace.
        """
        return {"kind": "Group", "apiGroup": ROLES.group, "name": addon_group(cluster, addon)}


class CertificateAddonDriver(AddonDriver, RequestsAddonCertificate):
    """The default; ManagedClusterAddOns call it `csr`."""

    name = "csr"
    credential = CredentialKind(
        name="add-on certificate",
        conditions=(CredentialCondition(ConditionType.CERTIFICATE_ROTATED, "ClientCertificateUpdated"),),
        consequence="{holder} is refused by the hub",
    )
    subjects = CertificateSubjects()

    def agent(self, context: AgentContext) -> AgentDriver:
        from watchword.credentials.certificates.agent import CertificateAgentDriver

        return CertificateAgentDriver.make(context)

    def wanted(self, addon: Addon, registration: Registration) -> WantedCredential:
        declared = registration.subject
        return WantedCredential(
            addon.cluster,
            CredentialSubject(declared.user, declared.groups, declared.organization_units),
            addon=addon.name,
            signer=registration.signer,
            rotation=addon.rotation_request,
        )

    def subject_in_reused_name(self, cluster: str, addon: str, cluster_uid: str) -> AddonSubject:
        """Return a subject whose user name none of the earlier cluster's certificates has."""
        default = certificate_subject(cluster, addon)
        agent = default.user.removeprefix(addon_user(cluster, addon, ""))
        unique = f"{agent[:50].rstrip('-')}-{sha256(cluster_uid.encode()).hexdigest()[:12]}"
        return replace(default, user=addon_user(cluster, addon, unique))
