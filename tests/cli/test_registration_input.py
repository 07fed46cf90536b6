"""Wrong input to the registration commands is refused in one sentence, before any request."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchword.cli.main import run

TOKEN = "x7k2m9.q8w3e5r1t0y6u4i2"
PIN = "sha256:" + "0" * 64
JOIN = ["join", "hub.test:6443", "--token", TOKEN, "--discovery-token-ca-cert-hash", PIN]
HUB = ["join", "--cluster-name", "edge-1"]
ADDRESS = ["--hub-apiserver", "https://h", "--hub-token", TOKEN]


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        pytest.param(JOIN, "name the cluster: --cluster-name", id="join without a name"),
        pytest.param([*JOIN, "--cluster-name", "Edge"], "not a DNS label", id="join with a name in capitals"),
        pytest.param([*JOIN, "--cluster-name", "a.b"], "not a DNS label", id="join with a dot in the name"),
        pytest.param([*JOIN, "--cluster-name", "kube-system"], "namespace of the hub", id="join as the hub itself"),
        pytest.param([*JOIN, "--cluster-name", "work"], "all clusters share", id="join under a shared role's name"),
        pytest.param(["accept", "--clusters", "managed-clusters"], "all clusters share", id="accept a shared group"),
        pytest.param([*JOIN, "--cluster-name", "a", "--namespace", "A_b"], "--namespace", id="namespace"),
        pytest.param([*JOIN, "--cluster-name", "a", "--klusterlet-name", "A_b"], "--klusterlet-name", id="klusterlet"),
        pytest.param([*JOIN, "--cluster-name", "a,b"], "is one name", id="join under two names"),
        pytest.param([*JOIN, "--cluster-name", "a", "--registration-auth", "magic"], "no driver 'magic'", id="driver"),
        pytest.param(
            [*JOIN, "--cluster-name", "a", "--registration-auth", "pigeon"],
            "choose one of aws-irsa, csr",
            id="unknown driver",
        ),
        pytest.param(
            [*JOIN, "--cluster-name", "a", "--registration-auth", "aws-irsa", "--eks-hub-cluster-arn", "hub"],
            "'hub' is not the ARN of an EKS cluster",
            id="a name instead of an ARN",
        ),
        pytest.param(
            [*JOIN, "--cluster-name", "a", "--managed-cluster-arn", "arn:aws:eks:us-west-2:1:cluster/a"],
            "is not the ARN of an EKS cluster",
            id="an ARN with a malformed account",
        ),
        pytest.param(
            [*JOIN, "--cluster-name", "a", "--addon-token-expiration-seconds", "60"],
            "from 600 to",
            id="a lifetime that no server grants",
        ),
        pytest.param([*HUB], "say how to find the cluster", id="join without a hub"),
        pytest.param([*HUB, "h:1", "--token", TOKEN], "--discovery-token-ca-cert-hash", id="join without a pin"),
        pytest.param([*HUB, "--hub-token", TOKEN], "--hub-apiserver", id="hub token without an address"),
        pytest.param([*HUB, "--hub-apiserver", "https://h"], "--hub-token", id="hub address without a token"),
        pytest.param([*HUB, "--hub-apiserver", "http://h", "--hub-token", TOKEN], "https://", id="plain http"),
        pytest.param(
            [*HUB, "h:1", "--token", TOKEN, *ADDRESS],
            "one of them",
            id="both",
        ),
        pytest.param([*HUB, "h:1", "--token", "@missing"], "no such file", id="a token file that is not there"),
        pytest.param([*HUB, "--credential-file", "x"], "--node-name", id="a credential file for a cluster"),
        pytest.param([*JOIN, "--node-name", "n"], "--credential-file", id="a machine without a file"),
        pytest.param([*JOIN, "--node-name", "N!", "--credential-file", "x"], "lower case", id="a bad node name"),
        pytest.param(
            [*JOIN, "--node-name", "n", "--cluster-name", "a", "--credential-file", "x"], "one of them", id="both joins"
        ),
        pytest.param(["accept"], "name the cluster: --clusters", id="accept without a name"),
        pytest.param(["accept", "--clusters", "a,B"], "not a DNS label", id="accept a bad name"),
        pytest.param(["accept", "-c", "a,b", "--request", "x"], "--request belongs to one", id="one request for two"),
        pytest.param(["accept", "-c", "a", "--wait", "--timeout", "1d"], "24h, 90m", id="an unknown unit"),
        pytest.param(["deny"], "say what to deny", id="deny nothing"),
        pytest.param(["deny", "-c", "a", "--request", "x"], "say what to deny", id="deny both"),
        pytest.param(["unjoin"], "name the cluster: --cluster-name", id="unjoin without a name"),
        pytest.param(["rejoin"], "name the cluster: --cluster-name", id="rejoin without a name"),
        pytest.param(["rejoin", "--cluster-name", "a"], "say how to find the cluster", id="rejoin without a hub"),
        pytest.param(
            ["init", "--registration-auth", "csr,pigeon"], "choose one of aws-irsa, csr", id="init for one more"
        ),
        pytest.param(
            ["init", "--registration-auth", "magic"], "choose one of aws-irsa, csr", id="init with an unknown driver"
        ),
        pytest.param(["init", "--token", "abcdef.0123456789abcdef"], "printed in manuals", id="a sample token"),
        pytest.param(["init", "--token", "short"], "malformed", id="init with a malformed token"),
        pytest.param(["init", "--token-ttl", "tomorrow"], "24h, 90m", id="init with a strange life"),
        pytest.param(["init", "--feature-gates", "X=maybe"], "true or false", id="a switch between on and off"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.delenv("WATCHWORD_TOKEN", raising=False)
    code = run(argv)
    shown = capsys.readouterr()
    assert code == 2, shown.err
    assert complaint in " ".join(shown.err.split())
    assert TOKEN[7:] not in shown.err
    assert shown.out == ""
