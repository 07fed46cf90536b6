"""One instance: private data, one owner, everything still there after a restart, keys that renew."""

from __future__ import annotations

import shutil
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import apsw
import orjson
import pytest

from watchword.api.http import Request
from watchword.apiserver.access.pki_directory import ANNOUNCED, PkiDirectory, is_renewal_due
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.apiserver.store.model import StoreCorrupt, StoreLocked, StoreMissing, StoreOpenError
from watchword.pki.certificates import parse_certificate

NAMESPACES = "/api/v1/namespaces"


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Instance]:
    instance = Instance(
        InstanceSettings(folder, port=0, synchronous="NORMAL", audit_log=folder.parent / "audit.log"), now
    )
    await instance.start()
    try:
        yield instance
    finally:
        await instance.stop()


def request(instance: Instance, method: str, path: str, body: object = None) -> Request:
    token = f"Bearer {instance.material.admin_token.reveal()}"
    return Request(method, path, headers=(("Authorization", token),), body=orjson.dumps(body) if body else b"")


def modes(folder: Path) -> dict[str, int]:
    return {str(file.relative_to(folder)): stat.S_IMODE(file.stat().st_mode) for file in folder.rglob("*")}


@pytest.mark.real_time
async def test_objects_and_revisions_survive_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as first:
        made = await first.plane.handle(request(first, "POST", NAMESPACES, {"metadata": {"name": "kept"}}))
    async with running(tmp_path / "data") as second:
        found = await second.plane.handle(request(second, "GET", f"{NAMESPACES}/kept"))

        assert made.status == 201
        assert orjson.loads(found.body)["metadata"]["uid"] == orjson.loads(made.body)["metadata"]["uid"]
        assert second.material.root_bundle == first.material.root_bundle


@pytest.mark.real_time
async def test_secrets_on_disk_are_for_the_owner_alone(tmp_path: Path) -> None:
    async with running(tmp_path / "data"):
        found = modes(tmp_path / "data")

    public = {name for name, mode in found.items() if mode & 0o077}
    assert all(name.endswith(".crt") for name in public)
    assert found["admin.kubeconfig"] == found["state.db"] == found["pki/admin.token"] == 0o600
    assert found["pki"] == 0o700


@pytest.mark.real_time
async def test_a_second_instance_on_the_same_data_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path / "data"):
        with pytest.raises(StoreLocked, match="stop it first"):
            Instance(InstanceSettings(tmp_path / "data", port=0), now)


@pytest.mark.real_time
async def test_instance_whose_objects_are_gone_does_not_start_blank(tmp_path: Path) -> None:
    async with running(tmp_path / "data"):
        pass
    for file in (tmp_path / "data").glob("state.db*"):
        file.unlink()

    with pytest.raises(StoreMissing, match="to begin anew"):
        Instance(InstanceSettings(tmp_path / "data", port=0), now)


@pytest.mark.real_time
@pytest.mark.parametrize("name", ["ca-1.key", "service-accounts.key"])
async def test_instance_does_not_replace_a_lost_signing_key(tmp_path: Path, name: str) -> None:
    async with running(tmp_path / "data"):
        pass
    pki = tmp_path / "data" / "pki"
    certificate = (pki / "ca-1.crt").read_bytes()
    (pki / name).unlink()

    with pytest.raises(StoreMissing, match=rf"{name} is gone.* from a backup"):
        Instance(InstanceSettings(tmp_path / "data", port=0), now)

    assert not (pki / name).exists()
    assert (pki / "ca-1.crt").read_bytes() == certificate


@pytest.mark.real_time
async def test_instance_whose_keys_are_all_gone_does_not_start(tmp_path: Path) -> None:
    async with running(tmp_path / "data"):
        pass
    shutil.rmtree(tmp_path / "data" / "pki")

    with pytest.raises(StoreMissing, match=r"service-accounts\.key is gone"):
        Instance(InstanceSettings(tmp_path / "data", port=0), now)


@pytest.mark.real_time
async def test_instance_replaces_lost_serving_key(tmp_path: Path) -> None:
    async with running(tmp_path / "data"):
        pass
    (tmp_path / "data" / "pki" / "serving.key").unlink()

    async with running(tmp_path / "data") as second:
        assert (await second.plane.handle(request(second, "GET", NAMESPACES))).status == 200


@pytest.mark.real_time
async def test_instance_names_an_object_that_is_not_json(tmp_path: Path) -> None:
    async with running(tmp_path / "data"):
        pass
    database = apsw.Connection(str(tmp_path / "data" / "state.db"))
    database.execute("UPDATE log SET body = x'7b' WHERE bucket = 'namespaces' AND path LIKE '%default'")
    database.close()

    with pytest.raises(StoreCorrupt, match=r"state\.db is damaged: namespaces/.*default .* restore a backup"):
        Instance(InstanceSettings(tmp_path / "data", port=0), now)


def test_a_directory_that_others_may_read_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir(mode=0o755)

    with pytest.raises(StoreOpenError, match="chmod 700"):
        Instance(InstanceSettings(folder, port=0), now)


@pytest.mark.real_time
async def test_the_socket_answers_the_administrator_and_refuses_anonymous_requests(tmp_path: Path) -> None:
    async with running(tmp_path / "data") as instance, aiohttp.ClientSession() as client:
        url = f"{instance.server}{NAMESPACES}"
        token = {"Authorization": f"Bearer {instance.material.admin_token.reveal()}"}
        async with client.get(url, headers=token, ssl=False) as welcome, client.get(url, ssl=False) as anonymous:
            assert (welcome.status, anonymous.status) == (200, 403)
    lines = (tmp_path / "audit.log").read_text().splitlines()
    assert any(orjson.loads(line)["user"]["username"] == "kubernetes-admin" for line in lines)


class Calendar:
    def __init__(self) -> None:
        self.today = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.today


def test_the_serving_certificate_is_renewed_before_it_ends(tmp_path: Path) -> None:
    calendar = Calendar()
    material = PkiDirectory(tmp_path / "pki", ("127.0.0.1",), calendar)
    first = (tmp_path / "pki" / "serving.crt").read_bytes()

    calendar.today += timedelta(days=100)
    material.renew()
    kept = (tmp_path / "pki" / "serving.crt").read_bytes()
    calendar.today += timedelta(days=200)
    material.renew()

    assert kept == first
    assert (tmp_path / "pki" / "serving.crt").read_bytes() != first


def test_a_new_ca_is_published_long_before_it_signs(tmp_path: Path) -> None:
    calendar = Calendar()
    material = PkiDirectory(tmp_path / "pki", ("127.0.0.1",), calendar, ca_lifetime=timedelta(days=1000))
    old = material.signing_authority()

    calendar.today += timedelta(days=810)
    material.renew()
    announced, still_signing = len(material.trusted()), material.signing_authority()
    calendar.today += ANNOUNCED
    material.renew()

    assert announced == 2
    assert still_signing.certificate == old.certificate
    assert material.signing_authority().certificate != old.certificate


def test_expired_ca_is_not_trusted(tmp_path: Path) -> None:
    calendar = Calendar()
    material = PkiDirectory(tmp_path / "pki", ("127.0.0.1",), calendar, ca_lifetime=timedelta(days=1000))
    old = material.signing_authority()
    calendar.today += timedelta(days=850)
    material.renew()
    calendar.today += timedelta(days=200)

    material.renew()

    assert old.certificate not in material.trusted()


@pytest.mark.parametrize("days", [300, 850, 1200], ids=["serving certificate", "new CA", "after the last CA"])
def test_a_renewal_that_was_killed_after_any_write_is_completed(tmp_path: Path, days: int) -> None:
    calendar, lifetime = Calendar(), timedelta(days=1000)
    PkiDirectory(tmp_path / "old", ("127.0.0.1",), calendar, ca_lifetime=lifetime)
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    calendar.today += timedelta(days=days)
    PkiDirectory(tmp_path / "new", ("127.0.0.1",), calendar, ca_lifetime=lifetime)
    written = sorted(
        (file for file in (tmp_path / "new").iterdir() if differs(file, tmp_path / "old" / file.name)),
        key=lambda file: file.stat().st_mtime_ns,
    )

    for count in range(len(written) + 1):
        folder = tmp_path / f"killed-{count}"
        shutil.copytree(tmp_path / "old", folder)
        for file in written[:count]:
            shutil.copy(file, folder)

        healed = PkiDirectory(folder, ("127.0.0.1",), calendar, ca_lifetime=lifetime, in_use=True)

        served = parse_certificate((folder / "serving.crt").read_bytes())
        assert not is_renewal_due(served, calendar.today)
        assert not is_renewal_due(healed.authorities[-1].certificate, calendar.today)
    assert len(written) >= 2


def differs(file: Path, before: Path) -> bool:
    return not before.exists() or before.read_bytes() != file.read_bytes()


def test_new_names_get_a_new_serving_certificate(tmp_path: Path) -> None:
    calendar = Calendar()
    PkiDirectory(tmp_path / "pki", ("127.0.0.1",), calendar)
    first = (tmp_path / "pki" / "serving.crt").read_bytes()

    PkiDirectory(tmp_path / "pki", ("127.0.0.1", "hub.example.com"), calendar)

    assert (tmp_path / "pki" / "serving.crt").read_bytes() != first


@pytest.mark.real_time
async def test_audit_log_tells_which_policy_would_have_refused(tmp_path: Path) -> None:
    root, name = "/apis/admissionregistration.k8s.io/v1", {"metadata": {"name": "no-namespaces"}}
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["namespaces"]}
    spec = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false", "message": "no"}]}
    bound = {"policyName": "no-namespaces", "validationActions": ["Audit"]}
    async with running(tmp_path / "data") as instance:
        for path, body in (
            (f"{root}/validatingadmissionpolicies", {**name, "spec": spec}),
            (f"{root}/validatingadmissionpolicybindings", {**name, "spec": bound}),
            (NAMESPACES, {"metadata": {"name": "team"}}),
        ):
            assert (await instance.plane.handle(request(instance, "POST", path, body))).status == 201

    event = orjson.loads((tmp_path / "audit.log").read_text().splitlines()[-1])
    (failure,) = orjson.loads(event["annotations"]["validation.policy.admission.k8s.io/validation_failure"])
    assert (failure["policy"], failure["message"], failure["validationActions"]) == ("no-namespaces", "no", ["Audit"])
