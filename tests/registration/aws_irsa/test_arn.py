"""Only the ARN of an EKS cluster is read as one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.registration.aws_irsa.documents import EksClusterArn, parse_oidc_provider
from watchword.registration.aws_irsa.errors import InvalidName

PROVIDER = "oidc.eks.us-west-2.amazonaws.com/id/EXAMPLED539D4633E53DE1B71EXAMPLE"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="empty"),
        pytest.param("edge-1", id="a name"),
        pytest.param("arn:aws:eks:us-west-2:111122223333", id="five parts"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/a:b:c:d", id="nine parts"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/", id="no name"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:nodegroup/edge-1", id="no cluster"),
        pytest.param("arn:aws:iam:us-west-2:111122223333:cluster/edge-1", id="another service"),
        pytest.param("arn:aws:eks:us-west-2:11112222333:cluster/edge-1", id="account of eleven digits"),
        pytest.param("arn:aws:eks:us-west-2:١١١١٢٢٢٢٣٣٣٣:cluster/edge-1", id="digits that are not ASCII"),
        pytest.param("arn:aws:eks::111122223333:cluster/edge-1", id="no region"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/a#b", id="delimiter of the identifier"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/a/b", id="slash in the name"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/-a", id="name begins with a hyphen"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/" + "a" * 101, id="name too long"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/edge-1\n", id="line break at the end"),
        pytest.param("arn:aws:eks:us-west-2:111122223333:cluster/" + "a" * 10_240, id="ten kilobytes"),
        pytest.param("arn:aws-mars:eks:us-west-2:111122223333:cluster/edge-1", id="partition that does not exist"),
        pytest.param("arn:aws:eks:cn-north-1:111122223333:cluster/edge-1", id="region of another partition"),
        pytest.param("arn:aws-us-gov:eks:us-west-2:111122223333:cluster/edge-1", id="partition of another region"),
    ],
)
def test_anything_but_the_arn_of_an_eks_cluster_is_refused(text: str) -> None:
    with pytest.raises(InvalidName) as refusal:
        EksClusterArn.parse(text)

    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize(
    ("text", "partition", "region"),
    [
        ("arn:aws:eks:us-west-2:000022223333:cluster/edge_1", "aws", "us-west-2"),
        ("arn:aws-cn:eks:cn-northwest-1:000022223333:cluster/edge_1", "aws-cn", "cn-northwest-1"),
        ("arn:aws-us-gov:eks:us-gov-east-1:000022223333:cluster/edge_1", "aws-us-gov", "us-gov-east-1"),
        ("arn:aws-iso:eks:us-iso-east-1:000022223333:cluster/edge_1", "aws-iso", "us-iso-east-1"),
        ("arn:aws-iso-b:eks:us-isob-east-1:000022223333:cluster/edge_1", "aws-iso-b", "us-isob-east-1"),
        ("arn:aws-eusc:eks:eusc-de-east-1:000022223333:cluster/edge_1", "aws-eusc", "eusc-de-east-1"),
    ],
)
def test_arn_of_every_partition_is_read(text: str, partition: str, region: str) -> None:
    arn = EksClusterArn.parse(text)

    assert arn == EksClusterArn(partition, region, account="000022223333", name="edge_1")
    assert str(arn) == text


@given(st.text() | st.from_regex(r"arn:aws[a-z-]*:eks:[^:]*:\d*:cluster/.*"))
def test_any_text_is_read_exactly_or_refused(text: str) -> None:
    try:
        arn = EksClusterArn.parse(text)
    except InvalidName:
        return
    assert str(arn) == text


@pytest.mark.parametrize("text", [PROVIDER, f"https://{PROVIDER}"])
def test_oidc_provider_is_read_with_and_without_its_scheme(text: str) -> None:
    assert parse_oidc_provider(text) == PROVIDER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "https://",
        f"http://{PROVIDER}",
        f"{PROVIDER}/",
        f"{PROVIDER}?x=1",
        'oidc.example.com/id/1", "*": "',
        "oidc.example.com/id/${self.id}",
        "oidc.example.com:8443/id/1",
        "oidc.example.com/id/*",
    ],
)
def test_anything_but_an_oidc_provider_is_refused(text: str) -> None:
    with pytest.raises(InvalidName, match=r"cluster\.identity\.oidc\.issuer"):
        parse_oidc_provider(text)
