"""Reads an AddOnTemplate as the definition of an add-on, so that an add-on can be described by manifests alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from watchword.addons.definition import BY_FEEDBACK, AddonDefinition, AddonInstance, Grant, Signer
from watchword.api.addon import AddonSubject, requested_namespace
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import ADDON_NAMESPACE, HUB_NAMESPACE, Annotation
from watchword.api.resources import ADDON_TEMPLATES, CLUSTER_MANAGEMENT_ADDONS, MANAGED_CLUSTER_ADDONS
from watchword.runtime.reconcile import Reader

HUB_KUBECONFIG_PATH = "/managed/hub-kubeconfig/kubeconfig"


@dataclass(frozen=True, slots=True)
class TemplateDefinitionLookup:
    """Finds the template of an add-on: the one its spec names, else the default of the add-on's kind."""

    reader: Reader
    signing_namespaces: frozenset[str] = frozenset({HUB_NAMESPACE})

    def __call__(self, addon: Object) -> AddonDefinition | None:
        """Return the definition, None when the add-on is not described by a template."""
        name = addon["metadata"]["name"]
        known = self.reader.get(CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(name)) or {}
        wanted = next(iter(template_names(addon, known)), "")
        template = self.reader.get(ADDON_TEMPLATES, ObjectKey.cluster(wanted)) if wanted else None
        if template is None or (template.get("spec") or {}).get("addonName") != name:
            return None
        described = read_template(template, addon, trusted=trusted_grants(known))
        signers = tuple(restrict_signing_authority(signer, self.signing_namespaces) for signer in described.signers)
        return replace(described, signers=signers)

    def addons_affected_by(self, changed: Object) -> list[ObjectKey]:
        """Map a template or an add-on's kind to the add-ons on all clusters that it describes."""
        name = str((changed.get("spec") or {}).get("addonName") or changed["metadata"]["name"])
        return [ObjectKey.of(obj) for obj in self.reader.by_index(MANAGED_CLUSTER_ADDONS, "name", name)]


def template_names(addon: Object, known: Object) -> Iterable[str]:
    """Return the templates named, the nearest first. Status is left out: the agent can write it."""
    yield from _configs((addon.get("spec") or {}).get("configs"))
    spec: Mapping[str, Any] = known.get("spec") or {}
    yield from _configs(spec.get("defaultConfigs"))
    for row in spec.get("supportedConfigs") or ():
        yield from _configs([{**row, **(row.get("defaultConfig") or {})}])


def _configs(rows: Any) -> Iterable[str]:
    for row in rows or ():
        if (row.get("group"), row.get("resource")) == (ADDON_TEMPLATES.group, ADDON_TEMPLATES.plural):
            yield str(row.get("name") or "")


def trusted_grants(known: Object) -> frozenset[str]:
    """Return the rights that the hub's administrator allows by name, although they are dangerous."""
    text = annotations_of(known).get(Annotation.ADDON_TRUSTED_GRANTS, "")
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def read_template(template: Object, addon: Object, *, trusted: frozenset[str] = frozenset()) -> AddonDefinition:
    """Return the definition of an add-on in a template."""
    spec: Mapping[str, Any] = template.get("spec") or {}
    rows: list[Mapping[str, Any]] = spec.get("registration") or []
    workload: Mapping[str, Any] = (spec.get("agentSpec") or {}).get("workload") or {}
    manifests: list[Object] = workload.get("manifests") or []
    namespace = requested_namespace(addon) or ADDON_NAMESPACE
    return AddonDefinition(
        name=str(spec.get("addonName") or ""),
        grants=tuple(grant for row in rows if row.get("type") == "KubeClient" for grant in _grants(row)),
        signers=tuple(_signer(row.get("customSigner") or {}) for row in rows if row.get("type") == "CustomSigner"),
        manifests=lambda instance: [substitute_variables(obj, variables(instance, namespace)) for obj in manifests],
        uses_hub=any(row.get("type") == "KubeClient" for row in rows),
        install_namespace=namespace,
        health=BY_FEEDBACK,
        trusted=trusted,
    )


def _grants(row: Mapping[str, Any]) -> Iterable[Grant]:
    for permission in (row.get("kubeClient") or {}).get("hubPermissions") or ():
        if permission.get("type") == "CurrentCluster":
            name = str((permission.get("currentCluster") or {}).get("clusterRoleName") or "")
            yield Grant(name, role=name)
        elif permission.get("type") == "SingleNamespace":
            single: Mapping[str, Any] = permission.get("singleNamespace") or {}
            role: Mapping[str, Any] = single.get("roleRef") or {}
            name = str(role.get("name") or "")
            yield Grant(name, role=name, role_kind=str(role.get("kind")), namespace=str(single.get("namespace") or ""))


def _signer(row: Mapping[str, Any]) -> Signer:
    authority: Mapping[str, Any] = row.get("signingCA") or {}
    key = ObjectKey(str(authority.get("namespace") or HUB_NAMESPACE), str(authority.get("name") or ""))
    declared = row.get("subject")
    if not declared or not declared.get("user"):
        return Signer(str(row.get("signerName") or ""), key)
    return Signer(
        str(row.get("signerName") or ""),
        key,
        lambda instance: AddonSubject.read(substitute_variables(declared, variables(instance, ""))),
    )


def restrict_signing_authority(signer: Signer, namespaces: frozenset[str]) -> Signer:
    """Return a signer that signs nothing when its authority lies where the hub keeps other people's keys.

    The hub reads the Secret with its own rights: an author of a template must not choose among all of them.
    """
    if signer.authority is None or signer.authority.namespace in namespaces:
        return signer
    objection = (
        f"the signing authority is in namespace {signer.authority.namespace}, and templates may name Secrets only in "
        f"{', '.join(sorted(namespaces))}: move it, or let the hub's administrator list the namespace with "
        "--signing-namespaces"
    )
    return replace(signer, objection=objection)


def variables(instance: AddonInstance, namespace: str) -> dict[str, str]:
    """Return what stands for `{{NAME}}` in a template."""
    return {
        "CLUSTER_NAME": instance.cluster.name,
        "INSTALL_NAMESPACE": namespace,
        "HUB_KUBECONFIG": HUB_KUBECONFIG_PATH,
    }


def substitute_variables(value: Any, names: Mapping[str, str]) -> Any:
    """Return a manifest with `{{NAME}}` replaced in every text; names that are not known stay as they are."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("{{" + name + "}}", text)
        return value
    if isinstance(value, list):
        return [substitute_variables(item, names) for item in value]
    if isinstance(value, Mapping):
        return {name: substitute_variables(item, names) for name, item in value.items()}
    return value
