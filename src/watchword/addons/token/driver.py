"""Add-ons register with tokens of a ServiceAccount on the hub."""

from datetime import timedelta

from watchword.addons.driver import AddonDriver, AddonStep, HasHubStep, SubjectObject
from watchword.addons.token import hub
from watchword.api.addon import Addon, Registration
from watchword.api.limits import LONGEST_TOKEN_LIFETIME, SHORTEST_TOKEN_LIFETIME
from watchword.api.names import ConditionType
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.api.validation import parse_seconds
from watchword.credentials.driver import (
    AgentContext,
    AgentDriver,
    CredentialCondition,
    CredentialKind,
    CredentialSubject,
    DriverOption,
    HubContext,
    OptionType,
    Settings,
    Side,
    WantedCredential,
)

DEFAULT_LIFETIME = timedelta(days=365)
MIN_RECOMMENDED_LIFETIME = timedelta(hours=1)


def validate_lifetime(value: str) -> str:
    lifetime = parse_seconds(value)
    if lifetime is not None and SHORTEST_TOKEN_LIFETIME <= lifetime <= LONGEST_TOKEN_LIFETIME:
        return ""
    longest = int(LONGEST_TOKEN_LIFETIME.total_seconds())
    advice = f"set {LIFETIME.flag} to 0, or to a number from 600 to {longest}"
    return f"{value[:40]} seconds is no lifetime of a token: {advice}"


def warn_of_short_lifetime(value: str) -> str:
    lifetime = parse_seconds(value)
    if lifetime is None or lifetime >= MIN_RECOMMENDED_LIFETIME:
        return ""
    return f"add-on tokens of {value} seconds are meant for tests: use 3600 and more"


LIFETIME = DriverOption(
    flag="--addon-token-expiration-seconds",
    help="Requested lifetime of add-ons' tokens, 600 or more; 0 means a year.",
    side=Side.CLUSTER,
    type=OptionType.NUMBER,
    paths=(("addOnKubeClientRegistrationDriver", "token", "expirationSeconds"),),
    validate=validate_lifetime,
    warn=warn_of_short_lifetime,
)


def token_lifetime(settings: Settings) -> timedelta:
    value = LIFETIME.read(settings) or None
    return parse_seconds(value, longest=LONGEST_TOKEN_LIFETIME) or DEFAULT_LIFETIME


class TokenAddonDriver(AddonDriver, HasHubStep):
    """Needs no signer: the hub's API server issues the tokens."""

    name = "token"
    options = (LIFETIME,)
    credential = CredentialKind(
        name="add-on token",
        conditions=(
            CredentialCondition(ConditionType.ADDON_TOKEN_REFRESHED, "AddonTokenRefreshed"),
            # The same as OCM spells it.
            CredentialCondition(ConditionType.TOKEN_REFRESHED, "AddonTokenRefreshed", "TokenCreationFailed"),
        ),
        consequence="{holder} is refused by the hub",
    )
    subjects = hub.SUBJECTS
    subject_object = SubjectObject(
        resource=SERVICE_ACCOUNTS,
        condition=ConditionType.TOKEN_INFRASTRUCTURE_READY,
        selector=hub.account_selector,
        addons_of=hub.addon_from_labels,
        is_present=hub.is_account_present,
    )

    def agent(self, context: AgentContext) -> AgentDriver:
        from watchword.addons.token.agent import TokenAgentDriver

        return TokenAgentDriver.make(context)

    def wanted(self, addon: Addon, registration: Registration) -> WantedCredential:
        """Return the request for a token of the account that the hub reports; until then without its UID."""
        account, name = hub.ready_account(addon), hub.account_name(registration.subject)
        settled = account is not None and account.name in ("", name)
        return WantedCredential(
            addon.cluster,
            CredentialSubject(registration.subject.user),
            addon=addon.name,
            service_account=name,
            service_account_uid=account.uid if account is not None and settled else "",
            rotation=addon.rotation_request,
        )

    def hub_step(self, context: HubContext) -> AddonStep:
        return hub.token_step(context)
