"""Clusters register with client certificates that the signer of the hub's cluster issues."""

from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.credentials import driver
from watchword.credentials.certificates.agent import LIFETIME, read_api_server_certificate, read_pending_key
from watchword.registration.certificate_approval import CLUSTER_CERTIFICATE, AllowList
from watchword.registration.driver import ClusterDriver, HubDriver, ReadsHeldCredential, RequestsCertificate

USERS = driver.DriverOption(
    flag="--auto-approved-csr-users",
    aliases=("--auto-approved-csr-identities", "--cluster-auto-approval-users"),
    help=f"Users whose first request is approved automatically, with {driver.AUTO_APPROVAL}; separated by commas.",
    side=driver.Side.HUB,
    type=driver.OptionType.LIST,
    paths=(("autoApproveUsers",), (driver.DRIVER_LIST, "csr", "autoApprovedIdentities")),
    gate=driver.AUTO_APPROVAL,
)
GROUPS = driver.DriverOption(
    flag="--auto-approved-csr-groups",
    help=f"Groups whose first request is approved automatically, with {driver.AUTO_APPROVAL}; separated by commas.",
    side=driver.Side.HUB,
    type=driver.OptionType.LIST,
    gate=driver.AUTO_APPROVAL,
)


def read_allow_list(context: driver.HubContext) -> AllowList:
    """Return whose first request is approved automatically, from the settings of the hub."""
    users, groups = (frozenset(option.read_list(context.settings)) for option in (USERS, GROUPS))
    return AllowList(context.auto_approval, users, groups)


class CsrDriver(ClusterDriver, ReadsHeldCredential, RequestsCertificate):
    """The default: it needs no annotation, no server and no cloud."""

    name = "csr"
    options = (LIFETIME, USERS, GROUPS)  # the lifetime is that of add-ons' certificates, too
    credential = CLUSTER_CERTIFICATE
    signer = KUBE_CLIENT_SIGNER

    def agent(self, context: driver.AgentContext) -> driver.AgentDriver:
        from watchword.credentials.certificates.agent import CertificateAgentDriver

        return CertificateAgentDriver.make(context)

    def hub(self, context: driver.HubContext) -> HubDriver:
        from watchword.registration.certificate_approval import CertificateApprovalReconciler, CertificateHubDriver

        approvals = CertificateApprovalReconciler(context, self.name, KUBE_CLIENT_SIGNER, read_allow_list(context))
        return CertificateHubDriver(approvals)

    def read_held(self, data: driver.SecretData) -> driver.HeldCredential | None:
        return read_api_server_certificate(data)

    def read_pending_key(self, data: driver.SecretData) -> str:
        return read_pending_key(data)
