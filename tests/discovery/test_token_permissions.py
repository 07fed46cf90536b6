"""The rights of a bootstrap token and of anonymous clients, the same on every control plane."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from tests.helpers.discoverable_hub import DiscoverableHub

from watchword.api.bootstrap import CLUSTER_INFO
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, SECRETS, SELF_SUBJECT_REVIEWS
from watchword.discovery.token_secret import TokenRecord, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.errors import Forbidden, Unauthorized

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]
GROUPS = ("system:bootstrappers:managedcluster",)
REVIEW = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}


async def test_anonymous_readers_see_cluster_info_and_nothing_else(hub: DiscoverableHub) -> None:
    client = hub.anonymous()
    assert (await client.get(CONFIG_MAPS, CLUSTER_INFO))["data"]["kubeconfig"]
    for path in (
        "/api/v1/namespaces/kube-public/configmaps",
        "/api/v1/namespaces/kube-public/configmaps/other",
        "/api/v1/namespaces/kube-public/secrets",
        "/api/v1/namespaces/kube-system/secrets",
        "/api/v1/namespaces",
        "/api/v1/nodes",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/api",
        "/apis",
        "/openapi/v3",
    ):
        assert (await client.request("GET", path)).status in (401, 403), path
    change = await client.request("DELETE", CONFIG_MAPS.path(CLUSTER_INFO))
    assert change.status in (401, 403)
    await client.close()


async def test_a_token_holder_may_ask_for_certificates_and_nothing_else(hub: DiscoverableHub) -> None:
    token = await hub.has_token(groups=GROUPS)
    client = hub.holding(token)
    assert (await client.list(CERTIFICATE_SIGNING_REQUESTS)).resource_version
    for path in ("/api/v1/secrets", "/api/v1/namespaces/kube-system/secrets", "/api/v1/namespaces", "/api/v1/pods"):
        assert (await client.request("GET", path)).status == 403, path
    with pytest.raises(Forbidden):
        await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(ObjectKey("kube-public", "mine")))
    await client.close()


def _data(**values: str) -> Callable[[Object], None]:
    def change(secret: Object) -> None:
        for key, value in values.items():
            secret["data"][key.replace("_", "-")] = base64.b64encode(value.encode()).decode()

    return change


@pytest.mark.parametrize(
    ("change", "welcome"),
    [
        pytest.param(_data(), True, id="a good token"),
        pytest.param(
            _data(auth_extra_groups="system:bootstrappers:a,system:bootstrappers:b:c"), True, id="with groups"
        ),
        pytest.param(_data(expiration="2999-01-01T00:00:00Z"), True, id="expires later"),
        pytest.param(_data(expiration="2020-01-01T00:00:00Z"), False, id="expired, not yet cleaned"),
        pytest.param(_data(expiration="soon"), False, id="unreadable expiration"),
        pytest.param(_data(usage_bootstrap_authentication="True"), False, id="usage True"),
        pytest.param(_data(usage_bootstrap_authentication="1"), False, id="usage 1"),
        pytest.param(_data(usage_bootstrap_authentication=""), False, id="no usage"),
        pytest.param(_data(token_id="other1"), False, id="another id inside"),
        pytest.param(_data(token_secret="0000000000000000"), False, id="another secret"),
        pytest.param(_data(auth_extra_groups="system:masters"), False, id="a group of power"),
        pytest.param(_data(auth_extra_groups="system:bootstrappers:a, system:bootstrappers:b"), False, id="a space"),
        pytest.param(_data(auth_extra_groups="system:bootstrappers:"), False, id="the bare prefix"),
        pytest.param(lambda s: s.update(type="Opaque"), False, id="another type"),
        pytest.param(lambda s: s["metadata"].update(name="bootstrap-token-zzzzzz"), False, id="another name"),
        pytest.param(lambda s: s["metadata"].update(namespace="kube-public"), False, id="another namespace"),
    ],
)
async def test_a_token_authenticates_only_by_the_rules(
    hub: DiscoverableHub,
    change: Callable[[Object], None],
    welcome: bool,  # noqa: FBT001 - a column
) -> None:
    token = BootstrapToken.generate()
    secret = write_token_secret(TokenRecord(token))
    change(secret)
    stored = await hub.client.create(SECRETS, secret)
    client = hub.holding(token)
    try:
        answered = await client.create(SELF_SUBJECT_REVIEWS, REVIEW)
        who = answered["status"]["userInfo"]["username"]
    except Unauthorized:
        who = ""
    finally:
        await client.close()
        await hub.client.delete(SECRETS, ObjectKey.of(stored))
    assert who == (f"system:bootstrap:{token.id}" if welcome else "")
