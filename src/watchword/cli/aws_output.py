"""How IAM roles are printed: for people, for programs, as `aws` commands, as Terraform."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence

from watchword.drivers.aws_irsa.documents import IamRole

TERRAFORM = """\
resource "aws_iam_role" "{label}" {{
  name               = "{name}"
  assume_role_policy = <<-POLICY
{trust}
  POLICY
{tags}}}

resource "aws_iam_role_policy" "{label}" {{
  name   = "{name}"
  role   = aws_iam_role.{label}.id
  policy = <<-POLICY
{access}
  POLICY
}}
"""


def format_role(role: IamRole, form: str) -> str:
    """Return a role in one of the `FORMS`."""
    return FORMS[form](role)


def format_changes(role: IamRole, changes: Sequence[str], form: str) -> str:
    """Return what was changed about a role."""
    if form == "json":
        return _dump({"roleArn": role.arn, "changes": list(changes)})
    return f"role {role.arn}: {', '.join(changes) or 'unchanged'}\n"


def _format_text(role: IamRole) -> str:
    """Return the documents to the character."""
    tags = "".join(f"{key}: {value}\n" for key, value in role.tags.items())
    parts = {
        "Role": f"{role.arn}\n",
        "Access policy": role.access_policy,
        "Trust policy": role.trust_policy,
        "Tags": tags,
    }
    return "\n".join(f"{title}:\n{text}" for title, text in parts.items() if text)


def _format_json(role: IamRole) -> str:
    return _dump(
        {
            "roleArn": role.arn,
            "roleName": role.name,
            "policyName": role.name,
            "accessPolicy": role.access,
            "trustPolicy": role.trust,
            "tags": dict(role.tags),
        }
    )


def _format_commands(role: IamRole) -> str:
    """Return what creates the role, for a POSIX shell."""
    tags = ["--tags", *(f"Key={key},Value={value}" for key, value in role.tags.items())] if role.tags else []
    create = [
        "create-role",
        "--role-name",
        role.name,
        "--assume-role-policy-document",
        role.trust_policy.strip(),
        *tags,
    ]
    wait = ["wait", "role-exists", "--role-name", role.name]
    put = ["put-role-policy", "--role-name", role.name, "--policy-name", role.name]
    put += ["--policy-document", role.access_policy.strip()]
    return "".join(shlex.join(["aws", "iam", *command]) + "\n" for command in (create, wait, put))


def _format_terraform(role: IamRole) -> str:
    """Return the resources; no value can hold a sequence that Terraform would interpolate."""
    label = role.name if role.name[0].isalpha() else f"_{role.name}"
    return TERRAFORM.format(
        label=label,
        name=role.name,
        trust=_indent(role.trust_policy),
        access=_indent(role.access_policy),
        tags=_terraform_tags(role.tags),
    )


def _terraform_tags(tags: Mapping[str, str]) -> str:
    if not tags:
        return ""
    width = max(map(len, tags))
    return "  tags = {\n" + "".join(f'    {key:<{width}} = "{value}"\n' for key, value in tags.items()) + "  }\n"


def _indent(document: str) -> str:
    return "\n".join(f"    {line}".rstrip() for line in document.strip().splitlines())


def _dump(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


FORMS: Mapping[str, Callable[[IamRole], str]] = {
    "text": _format_text,
    "json": _format_json,
    "commands": _format_commands,
    "terraform": _format_terraform,
}
