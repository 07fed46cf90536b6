"""Lets the controllers of pull secrets remove what they made, before they are removed themselves."""

from __future__ import annotations

from datetime import timedelta

from watchword.admin.errors import NotReady
from watchword.api.pull_secrets import CONFIGURATION, LEGACY_TOKEN, PULL_SECRETS_NAMESPACE
from watchword.api.resources import CONFIG_MAPS
from watchword.discovery.polling import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.pullsecrets.inventory import read_pull_secrets

PAUSE = timedelta(seconds=2)


async def remove_pull_secrets(client: Client, patience: timedelta, progress: Progress = ignore_progress) -> bool:
    """Switch pull secrets off and wait until none is left; False when they are not installed.

    Legacy pairs stay, without our finalizer. `NotReady` when the controllers do not remove the rest in time.
    """
    try:
        await client.patch(CONFIG_MAPS, CONFIGURATION, {"data": {"enabled": "false"}})
    except NotFound:
        return False

    async def look() -> None:
        found = await read_pull_secrets(client)
        left = [secret for secret in found if not secret.is_legacy or LEGACY_TOKEN in secret.finalizers]
        if left:
            error = NotReady(
                f"{len(left)} pull secrets are left, first {left[0].key}: do the pods of the namespace "
                f"{PULL_SECRETS_NAMESPACE} run? `kubectl -n {PULL_SECRETS_NAMESPACE} get pods` shows them"
            )
            raise PollAgain("waiting for the controllers to remove the pull secrets", error)

    await poll_until(look, PollOptions(patience, pause=PAUSE), progress)
    return True
