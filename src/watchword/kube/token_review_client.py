"""Sends TokenReviews to the server that a kubeconfig names, as the token webhook of kube-apiserver does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from watchword.api.meta import Object
from watchword.kube.client import Client
from watchword.kube.connect import client_for_context
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig_files import load_kubeconfig


class TokenReviewClient(Struct, frozen=True):
    """Posts to exactly the address in the kubeconfig."""

    client: Client
    path: str

    @classmethod
    def connect(cls, kubeconfig: Path) -> TokenReviewClient:
        """Return a client for the current context of a file; `ConfigError` when the file cannot be used."""
        choice = load_kubeconfig(kubeconfig).choose()
        has_path = urlsplit(choice.cluster.server).path.strip("/")
        return cls(client_for_context(choice), "" if has_path else "/")

    async def __call__(self, review: Object) -> Mapping[str, Any]:
        """Return the reviewed TokenReview; `ConnectionError` when the server does not answer with one."""
        try:
            response = await self.client.request("POST", self.path, body=review)
            answer = orjson.loads(response.body)
        except KubeError as cause:
            raise ConnectionError("the token webhook did not answer") from cause
        except orjson.JSONDecodeError as cause:
            raise ConnectionError("the token webhook did not answer with a TokenReview") from cause
        if response.status // 100 != 2 or not isinstance(answer, dict) or answer.get("kind") != "TokenReview":
            raise ConnectionError("the token webhook did not answer with a TokenReview")
        return answer
