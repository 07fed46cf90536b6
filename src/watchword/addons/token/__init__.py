"""Add-ons register with tokens of a ServiceAccount on the hub."""

from __future__ import annotations

from watchword.addons.token.hub import (
    account_selector,
    addon_from_labels,
    choose_token_subject,
    default_token_subject,
    is_account_present,
    is_own_account,
    rbac_account,
    wanted_token,
)
from watchword.addons.token.options import OPTIONS
from watchword.api.lazy_function import LazyFunction
from watchword.api.names import ConditionType
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.registration.descriptor import (
    AddonRegistration,
    CredentialCondition,
    CredentialKind,
    Driver,
    SubjectObject,
)

DRIVER = Driver(
    name="token",
    options=OPTIONS,
    addons=AddonRegistration(
        agent=LazyFunction("watchword.addons.token.agent", "TokenAgentDriver.make"),
        credential=CredentialKind(
            name="add-on token",
            conditions=(
                CredentialCondition(ConditionType.ADDON_TOKEN_REFRESHED, "AddonTokenRefreshed"),
                # The same as OCM spells it.
                CredentialCondition(ConditionType.TOKEN_REFRESHED, "AddonTokenRefreshed", "TokenCreationFailed"),
            ),
            consequence="{holder} is refused by the hub",
        ),
        default_subject=default_token_subject,
        is_own_subject=is_own_account,
        choose_subject=choose_token_subject,
        wanted=wanted_token,
        rbac_subject=rbac_account,
        subject_object=SubjectObject(
            resource=SERVICE_ACCOUNTS,
            condition=ConditionType.TOKEN_INFRASTRUCTURE_READY,
            selector=account_selector,
            addons_of=addon_from_labels,
            is_present=is_account_present,
        ),
        controllers=LazyFunction("watchword.addons.token.hub", "token_controllers"),
    ),
)
