"""Renders the Helm chart and the kustomize bases from the code that `watchword manifests` runs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tools.chart_removal import pull_secret_removal_hook, removal_hook
from watchword import __version__
from watchword.api.meta import Manifest, Object
from watchword.api.names import IMAGE
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CUSTOM_RESOURCE_DEFINITIONS,
    KLUSTERLETS,
    NAMESPACES,
    NETWORK_POLICIES,
    POD_DISRUPTION_BUDGETS,
    POD_MONITORS,
    SERVICE_MONITORS,
    SERVICES,
)
from watchword.api.yaml import dump
from watchword.operator.installation import AgentNames, DeployedSettings, Installation
from watchword.operator.pull_secret_manifests import PullSecretBundleOptions, pull_secret_bundle
from watchword.operator.rendering import PodSettings, WorkloadAccess

ROOT = Path(__file__).parents[1]
HEADER = "# Rendered by `python -m tools.chart`; change the code that `watchword manifests` runs instead.\n"
TOKEN = re.compile(r"zz\d+zz(?:-addon)?")
OPTIONAL_LINE = re.compile(r"^(?P<indent> *)(?P<key>[\w./-]+): (?P<token>zz\d+zz)$")
ALL_ACCESS = WorkloadAccess(network_policy=True, pod_monitor=True, service_monitor=True, disruption_budget=True)
SWITCHES = {
    NETWORK_POLICIES: "networkPolicy",
    POD_DISRUPTION_BUDGETS: "podDisruptionBudget",
    POD_MONITORS: "podMonitor",
    SERVICES: "serviceMonitor",  # no process has another Service
    SERVICE_MONITORS: "serviceMonitor",
}
SPEC = {
    "hub": ("registrationConfiguration", "workConfiguration", "addOnManagerConfiguration"),
    "agent": ("registrationConfiguration", "workConfiguration", "externalServerURLs"),
}


@dataclass(frozen=True, slots=True)
class Expression:
    """What a value is in the template, and the block around its line when it may be left out."""

    rendered: str
    block: str = ""
    is_text: bool = True  # quoted where it is the whole value


@dataclass(frozen=True)
class Placeholders:
    """Words that stand for template expressions while objects are built by the code of the operator."""

    expressions: dict[str, Expression] = field(default_factory=dict)

    def text(self, expression: str) -> str:
        """Return the word for a text that is always there."""
        return self._add(Expression(expression))

    def number(self, expression: str) -> Any:
        """Return the word for a number."""
        return self._add(Expression(f"int {expression}", is_text=False))

    def optional(self, expression: str, rendered: str = "toJson .") -> Any:
        """Return the word for a field that is left out when the expression is empty."""
        return self._add(Expression(rendered, f"with {expression}", is_text=False))

    def defaulted(self, expression: str, value: object) -> Any:
        """Return the word for a structure with a default, which is the code's own."""
        return self._add(Expression(f"{expression} | default ({_literal(value)}) | toJson", is_text=False))

    def _add(self, expression: Expression) -> str:
        word = f"zz{len(self.expressions)}zz"
        self.expressions[word] = expression
        return word

    def fill(self, text: str) -> str:
        """Return a YAML text with every word replaced by its expression."""
        return "".join(f"{self._fill_line(line)}\n" for line in text.splitlines())

    def _fill_line(self, line: str) -> str:
        match = OPTIONAL_LINE.match(line)
        block = self.expressions[match["token"]].block if match else ""
        if match and block:
            rendered = self.expressions[match["token"]].rendered
            indent = match["indent"]
            return f"{indent}{{{{- {block} }}}}\n{indent}{match['key']}: {{{{ {rendered} }}}}\n{indent}{{{{- end }}}}"
        whole = line.split(": ", 1)[-1].removeprefix("- ").strip()
        return TOKEN.sub(lambda found: self._rendered(found[0], is_whole=found[0] == whole), line)

    def _rendered(self, word: str, *, is_whole: bool) -> str:
        if word.endswith("-addon"):
            return _braces('include "watchword.addonNamespace" .', is_text=is_whole)
        expression = self.expressions[word]
        if expression.block:
            raise ValueError(f"{expression} may be left out, but is not a line of its own")
        return _braces(expression.rendered, is_text=is_whole and expression.is_text)

    def operand(self, text: str) -> str:
        """Return a name as an operand inside of an expression."""
        if text.endswith("-addon") and TOKEN.fullmatch(text):
            return '(include "watchword.addonNamespace" .)'
        return f"({self.expressions[text].rendered})" if text in self.expressions else f'"{text}"'


def _braces(expression: str, *, is_text: bool) -> str:
    return f"{{{{ {expression}{' | quote' if is_text else ''} }}}}"


def _literal(value: object) -> str:
    """Return a value as a template expression."""
    if isinstance(value, Mapping):
        return "dict " + " ".join(f'"{key}" ({_literal(each)})' for key, each in value.items())
    return f'"{value}"'


def installation(words: Placeholders) -> Installation:
    """Return settings of words: the objects that are built from them become templates."""
    image = words.text('include "watchword.image" .')
    small = {"requests": {"cpu": "2m", "memory": "64Mi"}}
    return Installation(
        image,
        ALL_ACCESS,
        operator=_pods(words, "operator", small),
        hub=_deployed(words, "hub"),
        agent=_deployed(words, "agent"),
        agent_names=AgentNames(
            words.text('required "set agent.clusterName: the name on the hub" .Values.agent.clusterName'),
            words.text(".Values.agent.klusterletName"),
            words.text(".Values.agent.namespace"),
        ),
        pull_secrets=PullSecretBundleOptions(
            image,
            (words.optional(".Values.pullSecrets.registries", 'join "\\n" . | toJson'),),
            words.optional(".Values.pullSecrets.audience"),
            pods=_pods(words, "pullSecrets", {"requests": {"cpu": "10m", "memory": "64Mi"}}),
            access=ALL_ACCESS,
        ),
    )


def _pods(words: Placeholders, section: str, resources: Object) -> PodSettings:
    return PodSettings(
        replicas=words.number(f".Values.{section}.replicas"),
        resources=words.defaulted(f".Values.{section}.resources", resources),
        node_selector=words.optional(".Values.nodePlacement.nodeSelector"),
        tolerations=words.optional(".Values.nodePlacement.tolerations"),
        pull_secrets=words.optional(".Values.imagePullSecrets"),
    )


def _deployed(words: Placeholders, section: str) -> DeployedSettings:
    requirement = 'dict "type" "ResourceRequirement" "resourceRequirements" . | toJson'
    spec = {
        "nodePlacement": words.optional(".Values.nodePlacement"),
        "resourceRequirement": words.optional(f".Values.{section}.resources", requirement),
        **{name: words.optional(f".Values.{section}.{name}") for name in SPEC[section]},
    }
    annotations = words.optional(f'include "watchword.{section}Annotations" .', ".")
    return DeployedSettings(annotations, spec)


def chart_files() -> dict[str, str]:
    """Return every rendered file of the chart by its path in it."""
    words = Placeholders()
    settings = installation(words)
    hub, agent = settings.hub_rows(), settings.agent_rows()
    common = [row for row in hub if row in agent]
    own_hub, own_agent = ([row for row in rows if row not in common] for rows in (hub, agent))
    used = replace(settings.pull_secrets, only_used=True)
    kinds = [row for row in common if row[0] is CUSTOM_RESOURCE_DEFINITIONS]
    return {
        "Chart.yaml": dump(chart_description()),
        **{f"crds/{obj['metadata']['name']}.yaml": dump(obj) for _, obj in kinds},
        "templates/operator.yaml": _template(words, "or .Values.hub.enabled .Values.agent.enabled", common),
        "templates/hub.yaml": _template(words, ".Values.hub.enabled", own_hub),
        "templates/agent.yaml": _template(words, ".Values.agent.enabled", own_agent),
        "templates/pull-secrets.yaml": _pull_secrets_template(
            words, pull_secret_bundle(settings.pull_secrets), pull_secret_bundle(used)
        ),
        "templates/removal.yaml": _enclosed("if or .Values.hub.enabled .Values.agent.enabled", removal_hook()),
        "templates/pull-secrets-removal.yaml": _enclosed("if .Values.pullSecrets.enabled", pull_secret_removal_hook()),
    }


def chart_description() -> Object:
    """Return the description of the chart, which has the version of the program."""
    return {
        "apiVersion": "v2",
        "name": "watchword",
        "description": "A credential for every member of a Kubernetes fleet",
        "type": "application",
        "version": __version__,
        "appVersion": __version__,
        "kubeVersion": ">=1.30.0-0",
        "keywords": ["multicluster", "credentials", "open-cluster-management"],
    }


def _template(words: Placeholders, condition: str, rows: Iterable[Manifest]) -> str:
    documents = "".join(_document(words, row) for row in rows if row[0] is not CUSTOM_RESOURCE_DEFINITIONS)
    return _enclosed(f"if {condition}", documents)


def _pull_secrets_template(words: Placeholders, every: list[Manifest], used: list[Manifest]) -> str:
    """Return the template of the controllers; `onlyUsed` chooses between two forms of an object."""
    documents = ""
    for plain, narrowed in zip(every, used, strict=True):
        first, second = _document(words, plain), _document(words, narrowed)
        if first == second:
            documents += first
        else:
            documents += f"{{{{- if .Values.pullSecrets.onlyUsed }}}}\n{second}{{{{- else }}}}\n{first}{{{{- end }}}}\n"
    return _enclosed("if .Values.pullSecrets.enabled", documents)


def _document(words: Placeholders, row: Manifest) -> str:
    resource, obj = row
    text = f"---\n{words.fill(dump(obj))}"
    if resource is NAMESPACES:
        # Helm makes the namespace of the release itself, and refuses one that it did not make.
        name = words.operand(str(obj["metadata"]["name"]))
        return f"{{{{- if ne .Release.Namespace {name} }}}}\n{text}{{{{- end }}}}\n"
    if resource in SWITCHES:
        return f"{{{{- if .Values.{SWITCHES[resource]}.enabled }}}}\n{text}{{{{- end }}}}\n"
    return text


def _enclosed(block: str, documents: str) -> str:
    return f"{HEADER}{{{{- {block} }}}}\n{documents}{{{{- end }}}}\n"


def kustomize_files() -> dict[str, str]:
    """Return every rendered file of the kustomize bases by its path under them."""
    settings = Installation(IMAGE, agent_names=AgentNames(cluster="cluster1"))
    hub, agent, pull_secrets = settings.hub_rows(), settings.agent_rows(), settings.pull_secret_rows()
    kinds = [row for row in hub if row[0] is CUSTOM_RESOURCE_DEFINITIONS]
    files = {}
    for name, rows in {"kinds": kinds, "hub": hub, "agent": agent, "pull-secrets": pull_secrets}.items():
        own = [without_image(row) for row in rows if rows is kinds or row not in kinds]
        files[f"{name}/resources.yaml"] = HEADER + "---\n".join(dump(obj) for obj in own)
        files[f"{name}/kustomization.yaml"] = HEADER + dump(KUSTOMIZATION)
    return files


def without_image(row: Manifest) -> Object:
    """Return an object for a base: the operator deploys its own image, so that an overlay names the image once."""
    resource, obj = row
    if resource not in (CLUSTER_MANAGERS, KLUSTERLETS):
        return obj
    return {**obj, "spec": {name: value for name, value in obj["spec"].items() if name != "imagePullSpec"}}


KUSTOMIZATION: Object = {
    "apiVersion": "kustomize.config.k8s.io/v1beta1",
    "kind": "Kustomization",
    "resources": ["resources.yaml"],
}


def rendered_files(root: Path = ROOT) -> dict[Path, str]:
    """Return every rendered file with its content."""
    chart = {root / "deploy" / "chart" / path: text for path, text in chart_files().items()}
    return chart | {root / "deploy" / "kustomize" / path: text for path, text in kustomize_files().items()}


def main() -> None:
    """Write every rendered file."""
    for path, text in rendered_files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
