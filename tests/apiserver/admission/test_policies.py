"""ValidatingAdmissionPolicies: a table of policies and requests, the same on every control plane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Invalid
from watchword.testing.plane import Plane

WIDGETS = Resource("policies.example.com", "v1", "widgets", "Widget")
REVISED_WIDGETS = replace(WIDGETS, version="v2")
DENIED = "ValidatingAdmissionPolicy '{0}' with binding '{0}' denied request: "


def a_rule(resource: str, *operations: str, group: str = "", version: str = "v1", **more: Any) -> Object:
    """A resource rule; every operation unless some are named."""
    names = {"apiGroups": [group], "apiVersions": [version], "resources": [resource]}
    return {**names, "operations": list(operations or ("*",)), **more}


async def wait_until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Ask again until it holds: kube-apiserver takes policies and kinds over some time after they are stored."""
    async with asyncio.timeout(60):
        while True:
            if await holds():
                return
            await asyncio.sleep(0.1)


class Policies:
    """Installs policies for one namespace, which its label selects, and removes them with the test."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self.plane, self.client, self.namespace = plane, plane.client(), namespace
        self._made: list[str] = []

    async def install(self, spec: Object, binding: Object | None = None) -> str:
        """Store a policy and its binding, and wait until they are in force; return their name."""
        name = await self.store(spec, binding or {})
        refuses_probes = {"validations": [{"expression": "object.metadata.name != 'probe'"}]}
        await self.store({"matchConstraints": {"resourceRules": [a_rule("configmaps", "CREATE")]}, **refuses_probes})
        await wait_until(self._refuses_probes)
        return name

    async def _refuses_probes(self) -> bool:
        return not await self.is_admitted("probe")

    async def store(self, spec: Object, binding: Object | None = None) -> str:
        """Store a policy and its binding; return their name."""
        name = self.plane.unique("policy")
        chosen = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": self.namespace}}}
        match = {"resourceRules": [a_rule("configmaps")], **chosen, **(spec.get("matchConstraints") or {})}
        key, bound = ObjectKey.cluster(name), {"policyName": name, "validationActions": ["Deny"], **(binding or {})}
        policy = VALIDATING_ADMISSION_POLICIES.manifest(key, spec={**spec, "matchConstraints": match})
        self._made.append(name)
        await self.client.create(VALIDATING_ADMISSION_POLICIES, policy)
        await self.client.create(
            VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICY_BINDINGS.manifest(key, spec=bound)
        )
        return name

    async def is_admitted(self, name: str) -> bool:
        """Whether a ConfigMap of this name could be created."""
        manifest = CONFIG_MAPS.manifest(ObjectKey(self.namespace, name))
        try:
            await self.client.create(CONFIG_MAPS, manifest, dry_run=True)
        except ApiStatusError:
            return False
        return True

    async def send(self, method: str, name: str, body: Object | None = None, client: Client | None = None) -> Response:
        """Send a request about a ConfigMap."""
        key = ObjectKey(self.namespace, name)
        obj = None if method == "DELETE" else CONFIG_MAPS.manifest(key, **(body or {}))
        path = CONFIG_MAPS.path(namespace=self.namespace) if method == "POST" else CONFIG_MAPS.path(key)
        return await (client or self.client).request(method, path, body=obj)

    async def remove(self) -> None:
        """Delete every policy of this test."""
        for kind in (VALIDATING_ADMISSION_POLICY_BINDINGS, VALIDATING_ADMISSION_POLICIES):
            for name in self._made:
                await self.client.delete(kind, ObjectKey.cluster(name))


@pytest.fixture
async def policies(plane: Plane) -> AsyncIterator[Policies]:
    """Policies for a namespace of the test's own."""
    found = Policies(plane, await plane.namespace())
    yield found
    await found.remove()


def status_of(response: Response) -> tuple[int, str, str]:
    """Return code, reason and message of a refusal; reason and message are empty for a success."""
    body = orjson.loads(response.body)
    refused = body.get("kind") == "Status" and body["status"] == "Failure"
    return response.status, body.get("reason", "") if refused else "", body["message"] if refused else ""


FALSE = {"expression": "false"}


@pytest.mark.parametrize(
    ("validations", "code", "reason", "message"),
    [
        pytest.param([{"expression": "true"}], 201, "", "", id="holds"),
        pytest.param([FALSE], 422, "Invalid", "failed expression: false", id="no message"),
        pytest.param([{**FALSE, "message": " no. "}], 422, "Invalid", "no.", id="message"),
        pytest.param([{**FALSE, "reason": "Forbidden"}], 403, "Forbidden", "failed expression: false", id="forbidden"),
        pytest.param(
            [{**FALSE, "reason": "RequestEntityTooLarge"}],
            413,
            "RequestEntityTooLarge",
            "failed expression: false",
            id="413",
        ),
        pytest.param(
            [{**FALSE, "message": "no", "messageExpression": "'not ' + object.metadata.name"}],
            422,
            "Invalid",
            "not one",
            id="computed message",
        ),
        pytest.param(
            [{**FALSE, "message": "no", "messageExpression": "'x' + string(object.data.missing)"}],
            422,
            "Invalid",
            "no",
            id="computed message that fails",
        ),
        pytest.param(
            [{**FALSE, "message": "no", "messageExpression": "'a\\nb'"}],
            422,
            "Invalid",
            "no",
            id="computed message of two lines",
        ),
        pytest.param(
            [{"expression": "true"}, {**FALSE, "message": "second"}, {**FALSE, "message": "third"}],
            422,
            "Invalid",
            "second",
            id="the first refusal is reported",
        ),
        pytest.param(
            [{"expression": "object.data.missing == 'x'"}],
            422,
            "Invalid",
            "expression 'object.data.missing == 'x'' resulted in error: no such key: missing",
            id="error",
        ),
    ],
)
async def test_validation(policies: Policies, validations: list[Object], code: int, reason: str, message: str) -> None:
    name = await policies.install({"validations": validations})

    answer = status_of(await policies.send("POST", "one", {"data": {"a": "b"}}))

    expected = f'configmaps "one" is forbidden: {DENIED.format(name)}{message}' if message else ""
    assert answer == (code, reason, expected)


async def test_refusal_names_object_and_cause(policies: Policies) -> None:
    name = await policies.install({"validations": [{**FALSE, "message": "no", "reason": "Forbidden"}]})

    status = orjson.loads((await policies.send("POST", "one")).body)

    causes = [{"message": f"{DENIED.format(name)}no"}]
    assert status["details"] == {"name": "one", "kind": "configmaps", "causes": causes}


FAILS = "object.data.missing == 'x'"


@pytest.mark.parametrize(
    ("spec", "admitted"),
    [
        pytest.param({"failurePolicy": "Fail", "validations": [{"expression": FAILS}]}, False, id="Fail"),
        pytest.param({"failurePolicy": "Ignore", "validations": [{"expression": FAILS}]}, True, id="Ignore"),
        pytest.param({"failurePolicy": "Ignore", "validations": [FALSE]}, False, id="Ignore is not about refusals"),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "request.name == 'two'"}], "validations": [FALSE]},
            True,
            id="condition does not hold",
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": "request.name == 'one'"}], "validations": [FALSE]},
            False,
            id="condition holds",
        ),
        pytest.param(
            {"matchConditions": [{"name": "c", "expression": FAILS}], "validations": [{"expression": "true"}]},
            False,
            id="condition fails",
        ),
        pytest.param(
            {
                "matchConditions": [{"name": "c", "expression": FAILS}, {"name": "d", "expression": "false"}],
                "validations": [FALSE],
            },
            True,
            id="one condition fails, another does not hold",
        ),
        pytest.param(
            {
                "failurePolicy": "Ignore",
                "matchConditions": [{"name": "c", "expression": FAILS}],
                "validations": [FALSE],
            },
            True,
            id="condition fails under Ignore",
        ),
        pytest.param(
            {
                "variables": [
                    {"name": "size", "expression": "object.data.size()"},
                    {"name": "double", "expression": "variables.size * 2"},
                ],
                "validations": [{"expression": "variables.double == 2 && variables.size == 1"}],
            },
            True,
            id="variables",
        ),
        pytest.param(
            {
                "variables": [{"name": "unused", "expression": "object.data.missing"}],
                "validations": [{"expression": "true"}],
            },
            True,
            id="a variable that is not needed is not evaluated",
        ),
    ],
)
async def test_failure_policy_conditions_and_variables(policies: Policies, spec: Object, admitted: bool) -> None:  # noqa: FBT001 - a table
    await policies.install(spec)

    assert (await policies.send("POST", "one", {"data": {"a": "b"}})).status == (201 if admitted else 422)


async def test_failing_variable_is_named(policies: Policies) -> None:
    variables = [{"name": "broken", "expression": "object.data.missing"}]
    await policies.install({"variables": variables, "validations": [{"expression": "variables.broken == 'x'"}]})

    _, _, message = status_of(await policies.send("POST", "one", {"data": {"a": "b"}}))

    failure = 'composited variable "broken" fails to evaluate: no such key: missing'
    assert message.endswith(f"expression 'variables.broken == 'x'' resulted in error: {failure}")


@pytest.mark.parametrize(
    ("match", "matches"),
    [
        pytest.param({"resourceRules": [a_rule("configmaps", "CREATE")]}, True, id="operation"),
        pytest.param({"resourceRules": [a_rule("configmaps", "UPDATE")]}, False, id="another operation"),
        pytest.param({"resourceRules": [a_rule("*", "CREATE")]}, True, id="every resource"),
        pytest.param({"resourceRules": [a_rule("*/*", "CREATE")]}, True, id="every resource and subresource"),
        pytest.param({"resourceRules": [a_rule("configmaps/status", "CREATE")]}, False, id="a subresource"),
        pytest.param({"resourceRules": [a_rule("secrets", "CREATE")]}, False, id="another resource"),
        pytest.param({"resourceRules": [a_rule("configmaps", group="apps")]}, False, id="another group"),
        pytest.param({"resourceRules": [a_rule("configmaps", group="*", version="*")]}, True, id="every group"),
        pytest.param({"resourceRules": [a_rule("configmaps", scope="Namespaced")]}, True, id="namespaced"),
        pytest.param({"resourceRules": [a_rule("configmaps", scope="Cluster")]}, False, id="cluster-scoped"),
        pytest.param({"resourceRules": [a_rule("configmaps", resourceNames=["one"])]}, True, id="name"),
        pytest.param({"resourceRules": [a_rule("configmaps", resourceNames=["two"])]}, False, id="another name"),
        pytest.param({"excludeResourceRules": [a_rule("configmaps", "CREATE")]}, False, id="excluded"),
        pytest.param({"excludeResourceRules": [a_rule("configmaps", "DELETE")]}, True, id="another is excluded"),
        pytest.param({"objectSelector": {"matchLabels": {"team": "a"}}}, True, id="labels"),
        pytest.param({"objectSelector": {"matchLabels": {"team": "b"}}}, False, id="other labels"),
        pytest.param({"namespaceSelector": {"matchLabels": {"none": "here"}}}, False, id="another namespace"),
    ],
)
@pytest.mark.parametrize("bound", [False, True], ids=["policy", "binding"])
async def test_match(policies: Policies, match: Object, matches: bool, bound: bool) -> None:  # noqa: FBT001 - a table
    if bound:
        await policies.install({"validations": [FALSE]}, {"matchResources": match})
    else:
        await policies.install({"matchConstraints": match, "validations": [FALSE]})

    answer = await policies.send("POST", "one", {"metadata": {"labels": {"team": "a"}}})

    assert answer.status == (422 if matches else 201)


@pytest.mark.parametrize(
    "expression",
    [
        "request.operation == 'CREATE'",
        "request.kind.group == '' && request.kind.version == 'v1' && request.kind.kind == 'ConfigMap'",
        "request.resource.resource == 'configmaps' && request.resource.version == 'v1'",
        "request.requestResource.resource == 'configmaps'",
        "!has(request.subResource)",
        "request.name == 'one' && request.namespace == object.metadata.namespace",
        "request.userInfo.username == 'watchword:tester' && 'testers' in request.userInfo.groups",
        "request.dryRun == false",
        "request.options.kind == 'CreateOptions'",
        "oldObject == null && object.data.a == 'b'",
        "namespaceObject.metadata.name == request.namespace && namespaceObject.status.phase == 'Active'",
        "authorizer.requestResource.check('create').allowed()",
        "authorizer.group('').resource('configmaps').namespace(request.namespace).check('create').allowed()",
        "!authorizer.group('').resource('configmaps').namespace(request.namespace).name('x').check('delete').allowed()",
        "!authorizer.group('apps').resource('deployments').subresource('scale').check('update').allowed()",
        "authorizer.path('/version').check('get').allowed()",
        "!authorizer.serviceAccount(request.namespace, 'x').group('').resource('pods').check('list').allowed()",
        "authorizer.group('').resource('pods').check('list').reason() == ''",
        "!authorizer.group('').resource('pods').check('list').errored()",
    ],
)
async def test_variables_of_a_request(policies: Policies, expression: str) -> None:
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]}
    user = policies.plane.client("watchword:tester", ("testers",))
    await grant(policies.client, policies.namespace, rule)
    await policies.install({"validations": [{"expression": expression}]})

    response = await policies.send("POST", "one", {"data": {"a": "b"}}, client=user)

    assert status_of(response) == (201, "", "")


async def grant(client: Client, namespace: str, rule: Object) -> None:
    """Let the tests' user do something in a namespace."""
    root = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    metadata = {"name": "tester"}
    await client.request("POST", f"{root}/roles", body={"metadata": metadata, "rules": [rule]})
    subjects = [{"kind": "User", "name": "watchword:tester", "apiGroup": "rbac.authorization.k8s.io"}]
    role = {"kind": "Role", "name": "tester", "apiGroup": "rbac.authorization.k8s.io"}
    body = {"metadata": metadata, "roleRef": role, "subjects": subjects}
    await client.request("POST", f"{root}/rolebindings", body=body)


async def test_update_and_delete_see_the_old_object(policies: Policies) -> None:
    await policies.send("POST", "one", {"data": {"a": "b"}})
    update = "request.operation != 'UPDATE' || object.data.a == oldObject.data.a"
    delete = "request.operation != 'DELETE' || (object == null && oldObject.data.a != 'b')"
    await policies.install({"validations": [{"expression": update}, {"expression": delete}]})

    assert (await policies.send("PUT", "one", {"data": {"a": "c"}})).status == 422
    assert (await policies.send("PUT", "one", {"data": {"a": "b", "c": "d"}})).status == 200
    assert (await policies.send("DELETE", "one")).status == 422


async def test_warning_admits(policies: Policies) -> None:
    name = await policies.install({"validations": [{**FALSE, "message": "no"}]}, {"validationActions": ["Warn"]})

    response = await policies.send("POST", "one")

    text = f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{name}': no"
    assert (response.status, response.header("Warning")) == (201, f'299 - "{text}"')


async def test_policy_without_binding_is_not_in_force(policies: Policies) -> None:
    await policies.install({"validations": [FALSE]}, {"policyName": "another"})

    assert await policies.is_admitted("one")


async def test_token_requests_are_judged_with_their_defaults(policies: Policies) -> None:
    match = {"resourceRules": [a_rule("serviceaccounts/token", "CREATE")]}
    expected = (
        "object.spec.expirationSeconds <= 3600 && object.spec.audiences.size() == 1 && request.name == 'robot'"
        " && request.subResource == 'token' && request.kind.kind == 'TokenRequest'"
        " && request.resource.resource == 'serviceaccounts'"
    )
    name = await policies.install({"matchConstraints": match, "validations": [{"expression": expected}]})
    account = ObjectKey(policies.namespace, "robot")
    await policies.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(account))

    path = SERVICE_ACCOUNTS.path(account, subresource="token")
    granted = await policies.client.request("POST", path, body={"spec": {}})
    refused = await policies.client.request("POST", path, body={"spec": {"expirationSeconds": 7200}})

    assert granted.status == 201
    message = f'serviceaccounts "robot" is forbidden: {DENIED.format(name)}failed expression: {expected}'
    assert status_of(refused) == (422, "Invalid", message)


async def test_scale_is_judged_as_a_scale(policies: Policies) -> None:
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    key = ObjectKey(policies.namespace, "web")
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": pod}
    await policies.client.create(DEPLOYMENTS, DEPLOYMENTS.manifest(key, spec=spec))
    match = {"resourceRules": [a_rule("deployments/scale", "UPDATE", group="apps")]}
    rule = {"expression": "request.kind.kind == 'Scale' && object.spec.replicas < 3", "message": "too many"}
    await policies.install({"matchConstraints": match, "validations": [rule]})

    async def resize(replicas: int) -> int:
        path, scale = DEPLOYMENTS.path(key, subresource="scale"), {"metadata": {"name": "web"}}
        body = {"apiVersion": "autoscaling/v1", "kind": "Scale", **scale, "spec": {"replicas": replicas}}
        return (await policies.client.request("PUT", path, body=body)).status

    assert (await resize(3), await resize(2)) == (422, 200)


async def test_policies_do_not_judge_policies(policies: Policies) -> None:
    rule = a_rule("*", group="admissionregistration.k8s.io", version="*")
    await policies.install({"matchConstraints": {"resourceRules": [rule]}, "validations": [FALSE]})

    assert await policies.install({"validations": [FALSE]})


async def test_namespace_is_selected_by_its_own_labels(policies: Policies) -> None:
    name = policies.plane.unique("team")
    selector = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}}}
    match = {"resourceRules": [a_rule("namespaces", scope="Cluster")], **selector}
    await policies.install({"matchConstraints": match, "validations": [{"expression": "namespaceObject != null"}]})

    with pytest.raises(Invalid):
        await policies.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))


@pytest.mark.parametrize(("match_policy", "refused"), [pytest.param("Equivalent", True), pytest.param("Exact", False)])
async def test_other_version_of_a_kind(policies: Policies, match_policy: str, refused: bool) -> None:  # noqa: FBT001 - a table
    await define_widgets(policies.client)
    rule = a_rule("widgets", group=WIDGETS.group, version="v1")
    expression = "object.apiVersion != 'policies.example.com/v1' || request.requestResource.version != 'v2'"
    match = {"resourceRules": [rule], "matchPolicy": match_policy}
    await policies.install({"matchConstraints": match, "validations": [{"expression": expression}]})

    widget = REVISED_WIDGETS.manifest(ObjectKey(policies.namespace, "one"))
    try:
        await policies.client.create(REVISED_WIDGETS, widget)
    except Invalid:
        assert refused
    else:
        assert not refused


async def define_widgets(client: Client) -> None:
    """Serve a custom kind in two versions."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    versions = [{"name": name, "served": True, "storage": name == "v1", "schema": schema} for name in ("v1", "v2")]
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": WIDGETS.group, "names": names, "scope": "Namespaced", "versions": versions}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.request("POST", path, body={"metadata": {"name": f"widgets.{WIDGETS.group}"}, "spec": spec})

    async def is_served() -> bool:
        return (await client.request("GET", REVISED_WIDGETS.path(namespace="default"))).status == 200

    await wait_until(is_served)


@pytest.mark.planes("embedded")
async def test_policy_is_in_force_as_soon_as_it_is_stored(plane: Plane) -> None:
    policies = Policies(plane, await plane.namespace())
    name = await policies.store({"validations": [FALSE]})
    assert not await policies.is_admitted("one")

    change: Object = {"spec": {"validations": [{"expression": "true"}]}}
    await policies.client.patch(VALIDATING_ADMISSION_POLICIES, ObjectKey.cluster(name), change)
    assert await policies.is_admitted("one")

    change = {"spec": {"validations": [FALSE]}}
    await policies.client.patch(VALIDATING_ADMISSION_POLICIES, ObjectKey.cluster(name), change)
    assert not await policies.is_admitted("one")

    await policies.client.delete(VALIDATING_ADMISSION_POLICY_BINDINGS, ObjectKey.cluster(name))
    assert await policies.is_admitted("one")


@pytest.mark.planes("embedded")  # kube-apiserver checks types, and does not store it
async def test_condition_that_is_no_bool_fails(policies: Policies) -> None:
    await policies.install({"matchConditions": [{"name": "c", "expression": "'yes'"}], "validations": [FALSE]})

    assert (await policies.send("POST", "one")).status == 422


@pytest.mark.planes("embedded")
async def test_policy_stays_in_force_after_a_restart(private_plane: Plane) -> None:
    policies = Policies(private_plane, await private_plane.namespace())
    await policies.store({"validations": [FALSE]})

    await private_plane.restart()

    assert not await policies.is_admitted("one")


async def test_policy_that_cannot_be_read_refuses(secured_api: Any) -> None:
    bound = {"policyName": "unreadable", "validationActions": ["Deny"]}
    binding = VALIDATING_ADMISSION_POLICY_BINDINGS.manifest(ObjectKey.cluster("unreadable"), spec=bound)
    await secured_api.call("POST", VALIDATING_ADMISSION_POLICY_BINDINGS.path(), binding)
    spec = {"failurePolicy": "Fail", "validations": [{"message": "without an expression"}]}

    policy = VALIDATING_ADMISSION_POLICIES.manifest(ObjectKey.cluster("unreadable"), spec=spec)
    await secured_api.store_unchecked(VALIDATING_ADMISSION_POLICIES, policy)
    code, status = await secured_api.call("POST", CONFIG_MAPS.path(namespace="default"), {"metadata": {"name": "one"}})

    assert (code, "failed to configure policy: KeyError('expression')" in status["message"]) == (422, True)


@pytest.mark.parametrize(
    "unreadable",
    [
        pytest.param({"matchResources": {"resourceRules": [{"operations": "CREATE"}]}}, id="rule"),
        pytest.param({"matchResources": ["configmaps"]}, id="resources"),
        pytest.param({"matchResources": {"namespaceSelector": {"matchLabels": "all"}}}, id="selector"),
        pytest.param({"validationActions": "Deny"}, id="actions"),
    ],
)
async def test_policy_whose_binding_cannot_be_read_stays_in_force(secured_api: Any, unreadable: Object) -> None:
    rule = {"matchConstraints": {"resourceRules": [a_rule("configmaps")]}, "validations": [{"expression": "false"}]}
    policy = VALIDATING_ADMISSION_POLICIES.manifest(ObjectKey.cluster("strict"), spec=rule)
    await secured_api.call("POST", VALIDATING_ADMISSION_POLICIES.path(), policy)
    spec = {"policyName": "strict", "validationActions": ["Deny"], **unreadable}

    binding = VALIDATING_ADMISSION_POLICY_BINDINGS.manifest(ObjectKey.cluster("strict"), spec=spec)
    await secured_api.store_unchecked(VALIDATING_ADMISSION_POLICY_BINDINGS, binding)
    code, _ = await secured_api.call("POST", CONFIG_MAPS.path(namespace="default"), {"metadata": {"name": "one"}})

    assert code == 422
