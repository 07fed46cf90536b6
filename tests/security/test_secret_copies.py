"""Secrets that the product writes are in their data, and nowhere else on the object."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.fleet import AGENTS_NAMESPACE

from watchword.api.meta import ObjectKey, annotations_of, labels_of
from watchword.api.resources import SECRETS


@pytest.mark.parametrize("auth", ["token", "csr"])
async def test_no_annotation_or_label_of_a_secret_holds_what_it_keeps(addons: AddonFleet, auth: str) -> None:
    cluster = await addons.cluster(auth=auth)
    key = await addons.enable("reporter", cluster)
    data = await addons.secret(key)

    for secret in (ObjectKey(AGENTS_NAMESPACE, f"hub-{cluster}"), addons.secret_key(key)):
        found = await addons.client.get(SECRETS, secret)
        texts = [*annotations_of(found).values(), *labels_of(found).values()]
        assert "kubectl.kubernetes.io/last-applied-configuration" not in annotations_of(found)
        assert not any(value.decode() in text for value in data.values() for text in texts if len(value) > 63)
