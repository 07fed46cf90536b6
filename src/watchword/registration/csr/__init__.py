"""Clusters and add-ons register with client certificates that the hub's signer issues."""

from __future__ import annotations

from watchword.api.addon import certificate_subject
from watchword.api.lazy_function import LazyFunction
from watchword.api.names import KUBE_CLIENT_SIGNER, ConditionType
from watchword.credentials.certificates.decisions import read_api_server_certificate, read_pending_key
from watchword.registration.certificate_approval import CLUSTER_CERTIFICATE
from watchword.registration.csr.addons import (
    certificate_subject_in_reused_name,
    choose_certificate_subject,
    is_own_certificate,
    rbac_group,
    wanted_certificate,
)
from watchword.registration.csr.options import OPTIONS
from watchword.registration.descriptor import (
    AddonRegistration,
    ClusterRegistration,
    CredentialCondition,
    CredentialKind,
    Driver,
)

MAKE_AGENT = LazyFunction("watchword.credentials.certificates.agent", "CertificateAgentDriver.make")

DRIVER = Driver(
    name="csr",
    options=OPTIONS,
    cluster=ClusterRegistration(
        agent=MAKE_AGENT,
        hub=LazyFunction("watchword.registration.csr.hub", "make_hub_driver"),
        credential=CLUSTER_CERTIFICATE,
        read_held=read_api_server_certificate,
        read_pending_key=read_pending_key,
        needs_approval=True,
        signer=KUBE_CLIENT_SIGNER,
    ),
    addons=AddonRegistration(
        agent=MAKE_AGENT,
        credential=CredentialKind(
            name="add-on certificate",
            conditions=(CredentialCondition(ConditionType.CERTIFICATE_ROTATED, "ClientCertificateUpdated"),),
            consequence="{holder} is refused by the hub",
        ),
        default_subject=certificate_subject,
        is_own_subject=is_own_certificate,
        subject_in_reused_name=certificate_subject_in_reused_name,
        choose_subject=choose_certificate_subject,
        wanted=wanted_certificate,
        rbac_subject=rbac_group,
        declared_by_agent=False,
        by_certificate=True,
    ),
)
