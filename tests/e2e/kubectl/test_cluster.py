"""kubectl explores a cluster, grants rights, issues credentials and runs workloads."""

from __future__ import annotations

import base64
from pathlib import Path

import orjson
import pytest
from tests.e2e.kubectl.conftest import NAMESPACE, Kubectl

from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject

GEARS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "gears.journey.example.com"},
    "spec": {
        "group": "journey.example.com",
        "scope": "Namespaced",
        "names": {"plural": "gears", "kind": "Gear", "shortNames": ["gr"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Teeth", "type": "integer", "jsonPath": ".spec.teeth"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A wheel with teeth.",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "teeth": {"type": "integer", "minimum": 3, "description": "How many teeth."}
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "watchword", "args": ["hub"]}]},
        },
    },
}


def test_cluster_reports_the_kinds_it_serves(kubectl: Kubectl) -> None:
    resources = kubectl("api-resources", "-o", "wide")
    header = resources.splitlines()[0].split()
    assert header == ["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND", "VERBS", "CATEGORIES"]
    assert any(line.split()[:5] == ["configmaps", "cm", "v1", "true", "ConfigMap"] for line in resources.splitlines())
    assert "certificates.k8s.io/v1" in kubectl("api-versions").split()
    assert "Server Version: v1." in kubectl("version")
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_explain_describes_built_in_and_custom_fields(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=GEARS)
    kubectl("wait", "crd/gears.journey.example.com", "--for=condition=Established", "--timeout=10s")

    assert "KIND:       Secret" in kubectl("explain", "secret")
    assert "FIELD: stringData <map[string]string>" in kubectl("explain", "secret.stringData")
    explained = kubectl("explain", "gear.spec.teeth")
    assert "FIELD: teeth <integer>" in explained
    assert "How many teeth." in explained


def test_custom_objects_have_columns_rules_and_short_names(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=GEARS)
    gear = {"apiVersion": "journey.example.com/v1", "kind": "Gear", "metadata": {"name": "g"}, "spec": {"teeth": 12}}

    assert kubectl("apply", "-f", "-", stdin=gear) == "gear.journey.example.com/g created\n"
    refused = kubectl.attempt("patch", "gr", "g", "--type=merge", "-p", '{"spec":{"teeth":1}}')

    assert kubectl("get", "gr", "g").splitlines()[1].split() == ["g", "12"]
    assert (
        refused.stderr == 'The Gear "g" is invalid: spec.teeth: Invalid value: 1: '
        "spec.teeth in body should be greater than or equal to 3\n"
    )


def test_rights_are_granted_and_asked_for(kubectl: Kubectl) -> None:
    kubectl("create", "role", "reader", "--verb=get,list", "--resource=configmaps")
    kubectl("create", "rolebinding", "reader", "--role=reader", "--user=jane")

    assert kubectl("auth", "can-i", "list", "configmaps", "--as=jane") == "yes\n"
    denied = kubectl.attempt("auth", "can-i", "delete", "configmaps", "--as=jane")
    assert (denied.stdout, denied.returncode) == ("no\n", 1)
    assert "configmaps" in kubectl("auth", "can-i", "--list", "--as=jane")
    refused = kubectl.attempt("get", "secrets", "--as=jane")
    assert refused.stderr == (
        'Error from server (Forbidden): secrets is forbidden: User "jane" cannot list resource "secrets" '
        f'in API group "" in the namespace "{NAMESPACE}"\n'
    )


def test_whoami_and_tokens_name_the_same_account(kubectl: Kubectl) -> None:
    kubectl("create", "serviceaccount", "robot")

    token = kubectl("create", "token", "robot", "--duration=10m").strip()

    me = orjson.loads(kubectl("auth", "whoami", "-o", "json"))["status"]["userInfo"]
    assert "system:masters" in me["groups"]
    claims = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["sub"] == f"system:serviceaccount:{NAMESPACE}:robot"
    assert claims["exp"] - claims["iat"] == 600


def test_a_certificate_is_approved_and_issued(kubectl: Kubectl, tmp_path: Path) -> None:
    request = build_csr(PrivateKey.generate(), CertificateSubject("jane", ("devs",)))
    manifest = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "jane"},
        "spec": {
            "request": base64.b64encode(request).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["client auth"],
        },
    }
    kubectl("apply", "-f", "-", stdin=manifest)
    assert kubectl("get", "csr", "jane", "--no-headers").split()[-1] == "Pending"

    approved = kubectl("certificate", "approve", "jane")

    assert approved == "certificatesigningrequest.certificates.k8s.io/jane approved\n"
    kubectl("wait", "csr/jane", "--for=jsonpath={.status.certificate}", "--timeout=10s")
    assert kubectl("get", "csr", "jane", "--no-headers").split()[-1] == "Approved,Issued"


@pytest.mark.slow
def test_workloads_are_scaled_and_rolled_out(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert "successfully rolled out" in kubectl("rollout", "status", "deploy/web", "--timeout=20s")

    assert kubectl("scale", "deploy/web", "--replicas=1") == "deployment.apps/web scaled\n"

    kubectl("wait", "pods", "-l=app=web", "--for=jsonpath={.status.phase}=Running", "--timeout=20s")
    # The phase, not the column STATUS: a hub without rights ends, and is started again.
    assert kubectl("get", "pods", "-o", "jsonpath={.items[0].status.phase}") == "Running"
    assert "Replicas:" in kubectl("describe", "deploy", "web")
    assert kubectl("get", "deploy", "web").split()[:5] == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    kubectl("delete", "deploy", "web", "--cascade=foreground", "--timeout=20s")
    assert kubectl("get", "pods", "-l=app=web", "-o", "name") == ""
