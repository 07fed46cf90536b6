"""Examples of every command: help and the reference print them, and tests parse them."""

import re

import click

HUB = "hub.example.com:6443 --token @token-file --discovery-token-ca-cert-hash sha256:HEX"
SIGNING = "--signing-key registry.key --signing-certificate registry.crt"
OIDC = "--oidc-provider oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLE"
HUB_ARN = "--eks-hub-cluster-arn arn:aws:eks:eu-west-1:111122223333:cluster/hub"
CLUSTER_ARN = "--managed-cluster-arn arn:aws:eks:eu-west-1:444455556666:cluster/edge-1"
WIDTH = 78
LONGEST_CLAUSE = 50

# A command that is not here has one example: the command alone.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "up": ("up", "up --clusters 5 --registration-auth grpc", "up --cluster-names paris,tokyo --exit"),
    "reset": ("reset --yes",),
    "init": ("init --wait", "init --registration-auth csr,grpc --dry-run"),
    "join": (f"join {HUB} --cluster-name edge-1 --wait",),
    "accept": ("accept edge-1 edge-2", "accept edge-1 --wait"),
    "status": ("status", "status -o wide", "status --check"),
    "doctor": ("doctor", "doctor --read-only -o yaml"),
    "clusters": ("clusters", "clusters -l region=eu --sort-by age", "clusters -o name"),
    "clusters list": ("clusters list -w",),
    "clusters show": ("clusters show edge-1",),
    "addon list": ("addon list --cluster edge-1",),
    "addon show": ("addon show sample-addon --cluster edge-1",),
    "addon enable": ("addon enable sample-addon --cluster edge-1 --wait",),
    "addon disable": ("addon disable sample-addon --clusters edge-1,edge-2",),
    "addon uninstall": ("addon uninstall managed-serviceaccount --dry-run",),
    "serviceaccount create": ("serviceaccount create robot -n edge-1 --validity 1h --wait",),
    "serviceaccount list": ("serviceaccount list", "serviceaccount list -n edge-1 -o wide"),
    "serviceaccount show": ("serviceaccount show robot -n edge-1",),
    "serviceaccount delete": ("serviceaccount delete robot -n edge-1 --wait",),
    "serviceaccount grant": ("serviceaccount grant robot -n edge-1 --cluster-role view --in default",),
    "serviceaccount kubeconfig": ("serviceaccount kubeconfig robot --cluster edge-1 --file edge-1.kubeconfig",),
    "serviceaccount exec-credential": ("serviceaccount exec-credential robot --cluster edge-1",),
    "serviceaccount export": ("serviceaccount export argocd robot --to-namespace argocd",),
    "logs": ("logs hub --tail 100", "logs agent -f"),
    "deny": ("deny edge-1", "deny --request csr-7xk2p"),
    "rejoin": (f"rejoin {HUB} --cluster-name edge-1", "rejoin --take-over --cluster-name edge-1"),
    "unjoin": ("unjoin edge-1", "unjoin edge-1 --dry-run"),
    "token create": ("token create --print-join-command --for-cluster edge-1 --ttl 1h",),
    "token list": ("token list", "token list --sort-by ttl"),
    "token delete": ("token delete abcdef",),
    "rotate": ("rotate cluster edge-1", "rotate --all", "rotate -l region=eu --kind addon"),
    "rotate cluster": ("rotate cluster edge-1 edge-2",),
    "rotate addon": ("rotate addon sample-addon --cluster edge-1",),
    "rotate serviceaccount": ("rotate serviceaccount robot -n edge-1",),
    "revoke cluster": ("revoke cluster edge-1 --wait", "revoke cluster edge-1 --dry-run"),
    "revoke addon": ("revoke addon edge-1/sample-addon --wait",),
    "revoke serviceaccount": ("revoke serviceaccount edge-1/robot --wait",),
    "revoke pull-secret": ("revoke pull-secret default/default --yes",),
    "revoke token": ("revoke token abcdef --yes",),
    "revoke held-by": ("revoke held-by laptop/ --dry-run",),
    "inspect cluster": ("inspect cluster edge-1",),
    "inspect addon": ("inspect addon edge-1/sample-addon",),
    "inspect serviceaccount": ("inspect serviceaccount edge-1/robot -o json",),
    "inspect secret": ("inspect secret open-cluster-management-agent/hub-kubeconfig-secret",),
    "forecast": ("forecast --days 30",),
    "discover": (f"discover {HUB}",),
    "pull-secrets": ("pull-secrets --only-used", "pull-secrets list --unhealthy"),
    "pull-secrets list": ("pull-secrets list --unhealthy", "pull-secrets list -n default -w"),
    "clusterset list": ("clusterset list -o wide",),
    "clusterset create": ("clusterset create europe",),
    "clusterset delete": ("clusterset delete europe",),
    "clusterset add": ("clusterset add europe edge-1 edge-2",),
    "clusterset remove": ("clusterset remove europe edge-1",),
    "clusterset bind": ("clusterset bind europe -n team-a",),
    "clusterset unbind": ("clusterset unbind europe -n team-a",),
    "work create": ("work create config -f manifests.yaml --clusters edge-1,edge-2 --wait",),
    "work list": ("work list --cluster edge-1",),
    "work show": ("work show config --cluster edge-1",),
    "work delete": ("work delete config --cluster edge-1 --wait",),
    "version": ("version", "version --client"),
    "upgrade": ("upgrade --dry-run", "upgrade --context hub --agent-context edge-1,edge-2"),
    "backup": ("backup fleet.backup", "backup hub.backup --hub --passphrase-file passphrase"),
    "restore": ("restore fleet.backup --dry-run", "restore hub.backup --hub --passphrase-file passphrase"),
    "clean": ("clean --dry-run",),
    "clean-clusters": ("clean-clusters --dry-run",),
    "undeploy": ("undeploy --klusterlet klusterlet --dry-run",),
    "manifests hub": ("manifests hub --hub-apiserver https://hub.example.com:6443 --ca-file ca.crt",),
    "manifests agent": ("manifests agent --cluster-name edge-1",),
    "manifests managed-serviceaccount": ("manifests managed-serviceaccount --standalone",),
    "manifests pull-secrets": ("manifests pull-secrets --registry registry.example.com",),
    "manifests registry-auth": ("manifests registry-auth --service registry.example.com --audience registry",),
    "aws identifier": ("aws identifier 111122223333 hub 444455556666 edge-1",),
    "aws revoke": ("aws revoke edge-1",),
    "aws get-token": ("aws get-token --region eu-west-1 --cluster-name hub",),
    "aws prerequisites hub": (f"aws prerequisites hub {HUB_ARN} {OIDC}",),
    "aws prerequisites cluster": (f"aws prerequisites cluster {HUB_ARN} {CLUSTER_ARN} {OIDC}",),
    "completion": ("completion bash",),
    "help": ("help accept", "help processes"),
    "hub": ("hub --listen 127.0.0.1:8080",),
    "agent": ("agent --spoke-cluster-name edge-1 --bootstrap-kubeconfig bootstrap.kubeconfig",),
    "grpc-server": ("grpc-server --tls-cert-file tls.crt --tls-key-file tls.key --client-ca-file ca.crt",),
    "registry-auth": (f"registry-auth --service registry.example.com --audience registry {SIGNING}",),
    "credential-provider": ("credential-provider",),
    "credential-provider config": ("credential-provider config --image 'registry.example.com/*' --audience registry",),
    "sample-addon": ("sample-addon --manager",),
    "managed-serviceaccount": ("managed-serviceaccount --manager",),
    "apiserver": ("apiserver --data-dir plane --port 6443",),
}


def examples_of(path: str) -> tuple[str, ...]:
    return EXAMPLES.get(path, (path,))


def add_examples(command: click.Command, path: str) -> None:
    """Set the examples of a command, and of the commands in it, as the end of their help."""
    if path in EXAMPLES or not isinstance(command, click.Group):
        lines = [part for line in examples_of(path) for part in _wrapped(f"  watchword {line}")]
        command.epilog = "\n".join(["\b", "Examples:", *lines])
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            child.short_help = _first_clause(child.help or "")
            add_examples(child, f"{path} {name}")


def _first_clause(text: str) -> str:
    """Return what a list of commands shows of a command's help: as much as fits, and never half a sentence."""
    sentence = " ".join(text.partition("\n\n")[0].split())
    clause = re.split(r"[:;]", sentence)[0]
    return (clause.partition(",")[0] if len(clause) > LONGEST_CLAUSE else clause).removesuffix(".") + "."


def _wrapped(line: str) -> list[str]:
    """Return a command as lines that can be copied: a longer one goes on after a backslash."""
    lines = [""]
    for word in line.split(" "):
        if lines[-1].strip() and len(lines[-1]) + len(word) + 3 > WIDTH:
            lines[-1] += " \\"
            lines.append(f"      {word}")
        else:
            lines[-1] = f"{lines[-1]} {word}" if lines[-1] or not word else word
    return lines
