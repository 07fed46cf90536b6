"""The processes of a node of Kubernetes and what each is configured with, in the order in which they start."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from watchword.api.yaml import dump

NODE_NAME = "node"
PAUSE = "watchword.invalid/pause:1"
SERVICE_RANGE = "10.96.0.0/16"
POD_RANGE = "10.88.0.0/24"
CNI_PLUGINS = ("/usr/lib/cni", "/opt/cni/bin")
FIRST = ("etcd", "kube-apiserver", "containerd")
SECOND = ("kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """Where a node keeps its files, where its binaries are, and its address."""

    folder: Path
    binaries: Path
    address: str
    release: str
    pod_security: str = "privileged"  # the standard that pods of every namespace must meet

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "admin.conf"

    @property
    def cgroup(self) -> str:
        return f"/watchword-{self.folder.name}"

    def kubectl(self, *arguments: str, user: str = "admin") -> list[str]:
        """Return a command as one of the users that kubeadm made."""
        return [str(self.binaries / "kubectl"), f"--kubeconfig={self.folder / f'{user}.conf'}", *arguments]

    def ctr(self, *arguments: str) -> list[str]:
        """Return a command to containerd in the namespace of the kubelet."""
        return ["ctr", f"--address={self.socket}", "--namespace=k8s.io", *arguments]

    def kubeadm(self, *phase: str) -> list[str]:
        """Return a phase of `kubeadm init`."""
        return [str(self.binaries / "kubeadm"), "init", "phase", *phase, f"--config={self.folder / 'kubeadm.yaml'}"]


def write_configuration(node: NodeSettings) -> None:
    """Write the files that the processes read; certificates and kubeconfigs are those of kubeadm."""
    files = {
        "kubeadm.yaml": "---\n".join(dump(document) for document in kubeadm_documents(node)),
        "admission.yaml": dump(admission_configuration(node)),
        "kubelet.yaml": dump(kubelet_configuration(node)),
        "kube-proxy.yaml": dump(proxy_configuration(node)),
        "containerd.toml": containerd_configuration(node),
        "cni/10-bridge.conflist": json.dumps(network_configuration(node)),
        "processes.json": json.dumps(commands(node)),
    }
    for name in ("cni", "certs.d", "held", "log", "pids"):
        (node.folder / name).mkdir(exist_ok=True)
    for name, text in files.items():
        (node.folder / name).write_text(text)


def commands(node: NodeSettings) -> dict[str, list[str]]:
    """Return the command line of every process by its name."""
    pki = node.folder / "pki"
    controllers = node.folder / "controller-manager.conf"
    return {
        "etcd": [
            *(str(node.binaries / "etcd"), f"--data-dir={node.folder / 'etcd'}", "--unsafe-no-fsync"),
            *("--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379"),
            "--listen-peer-urls=http://127.0.0.1:2380",
        ],
        "kube-apiserver": [
            *(str(node.binaries / "kube-apiserver"), "--etcd-servers=http://127.0.0.1:2379", "--allow-privileged"),
            *(f"--advertise-address={node.address}", "--secure-port=6443", "--authorization-mode=Node,RBAC"),
            *(f"--client-ca-file={pki}/ca.crt", f"--tls-cert-file={pki}/apiserver.crt"),
            *(f"--tls-private-key-file={pki}/apiserver.key", f"--service-account-key-file={pki}/sa.pub"),
            f"--kubelet-client-certificate={pki}/apiserver-kubelet-client.crt",
            *(f"--kubelet-client-key={pki}/apiserver-kubelet-client.key", "--enable-bootstrap-token-auth"),
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-signing-key-file={pki}/sa.key",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            *(f"--service-cluster-ip-range={SERVICE_RANGE}", "--enable-admission-plugins=NodeRestriction"),
            f"--admission-control-config-file={node.folder / 'admission.yaml'}",
        ],
        "kube-controller-manager": [
            *(str(node.binaries / "kube-controller-manager"), f"--kubeconfig={controllers}"),
            *(f"--authentication-kubeconfig={controllers}", f"--authorization-kubeconfig={controllers}"),
            *(f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key"),
            *(f"--root-ca-file={pki}/ca.crt", f"--service-account-private-key-file={pki}/sa.key"),
            *("--use-service-account-credentials", "--leader-elect=false"),
        ],
        "kube-scheduler": [
            *(str(node.binaries / "kube-scheduler"), f"--kubeconfig={node.folder / 'scheduler.conf'}"),
            "--leader-elect=false",
        ],
        "containerd": ["containerd", f"--config={node.folder / 'containerd.toml'}"],
        "kubelet": [
            *(str(node.binaries / "kubelet"), f"--config={node.folder / 'kubelet.yaml'}"),
            *(f"--kubeconfig={node.folder / 'kubelet.conf'}", f"--hostname-override={NODE_NAME}"),
            *(f"--node-ip={node.address}", f"--root-dir={node.folder / 'kubelet'}"),
        ],
        "kube-proxy": [str(node.binaries / "kube-proxy"), f"--config={node.folder / 'kube-proxy.yaml'}"],
    }


def kubeadm_documents(node: NodeSettings) -> list[dict[str, Any]]:
    """Return what kubeadm makes certificates and kubeconfigs for."""
    version = "kubeadm.k8s.io/v1beta4"
    return [
        {
            "apiVersion": version,
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": node.address, "bindPort": 6443},
            "nodeRegistration": {"name": NODE_NAME, "criSocket": f"unix://{node.socket}"},
        },
        {
            "apiVersion": version,
            "kind": "ClusterConfiguration",
            "kubernetesVersion": node.release,
            "certificatesDir": str(node.folder / "pki"),
            "encryptionAlgorithm": "ECDSA-P256",
            "networking": {"serviceSubnet": SERVICE_RANGE},
        },
    ]


def admission_configuration(node: NodeSettings) -> dict[str, Any]:
    """Return the Pod Security standard of namespaces that name none."""
    security = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "defaults": {"enforce": node.pod_security, "enforce-version": "latest"},
    }
    return {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": security}],
    }


def kubelet_configuration(node: NodeSettings) -> dict[str, Any]:
    """Return settings with which a kubelet runs beside others on a machine, under either version of cgroups."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": node.cgroup,
        "cgroupsPerQOS": False,
        "enforceNodeAllocatable": [],
        "failSwapOn": False,
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "podLogsDir": str(node.folder / "pods"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(node.folder / "pki" / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "resolvConf": "",
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "10Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "localStorageCapacityIsolation": False,
        "syncFrequency": "10s",
    }


def proxy_configuration(node: NodeSettings) -> dict[str, Any]:
    """Return settings that change nothing outside of the network namespace."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(node.admin_kubeconfig)},
        "hostnameOverride": NODE_NAME,
        "conntrack": {"maxPerCore": 0},
    }


def containerd_configuration(node: NodeSettings) -> str:
    """Return settings that keep images and state in the folder of the node."""
    plugins = next((path for path in CNI_PLUGINS if Path(path, "bridge").is_file()), CNI_PLUGINS[0])
    cri = 'plugins."io.containerd.grpc.v1.cri"'
    return f"""version = 2
root = "{node.folder}/containerd/root"
state = "{node.folder}/containerd/state"
[grpc]
  address = "{node.socket}"
[{cri}]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [{cri}.cni]
    bin_dir = "{plugins}"
    conf_dir = "{node.folder}/cni"
  [{cri}.registry]
    config_path = "{node.folder}/certs.d"
  [{cri}.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"""


def network_configuration(node: NodeSettings) -> dict[str, Any]:
    """Return one bridge for all pods."""
    addresses = {
        "type": "host-local",
        "dataDir": str(node.folder / "addresses"),
        "ranges": [[{"subnet": POD_RANGE}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipMasq": True,
        "hairpinMode": True,
        "ipam": addresses,
    }
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge]}
