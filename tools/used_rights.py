"""Records which rights our ServiceAccounts use, from audit logs of a kube-apiserver on which the suites ran.

`make rights-record` runs the suites with audit logs and writes tests/data/used_rights.json.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

RECORD = Path(__file__).parent.parent / "tests" / "data" / "used_rights.json"
ACCOUNTS = {
    "accounts": "system:serviceaccount:open-cluster-management-hub:managed-serviceaccount-addon-manager",
    "agent": "system:serviceaccount:open-cluster-management-agent:fleet-sa",
    "cleaner": "system:serviceaccount:open-cluster-management-hub:cluster-cleaner-sa",
    "grpc-server": "system:serviceaccount:open-cluster-management-hub:grpc-server-sa",
    "hub": "system:serviceaccount:open-cluster-management-hub:registration-controller-sa",
    "operator": "system:serviceaccount:open-cluster-management:watchword-operator",
    "pull-secrets": "system:serviceaccount:watchword-pull-secrets:watchword-pull-secrets",
}
Right: TypeAlias = tuple[str, str, str]  # group, resource with its subresource, verb


def used_rights(events: Iterable[Mapping[str, Any]]) -> dict[str, set[Right]]:
    """Return what each process requested and was allowed; creating by server-side apply needs `create` as well."""
    names = {user: name for name, user in ACCOUNTS.items()}
    used: dict[str, set[Right]] = defaultdict(set)
    for event in events:
        name, about = names.get(event["user"]["username"]), event.get("objectRef") or {}
        code = (event.get("responseStatus") or {}).get("code", 0)
        if name is None or "resource" not in about or code in (401, 403):
            continue
        resource = "/".join(part for part in (about["resource"], about.get("subresource")) if part)
        group, verb = about.get("apiGroup", ""), event["verb"]
        used[name].add((group, resource, verb))
        if verb == "patch" and code == 201:
            used[name].add((group, resource, "create"))
        if "impersonatedUser" in event:
            used[name] |= {("", "users", "impersonate"), ("", "groups", "impersonate")}
    return used


def read_record() -> dict[str, set[Right]]:
    used: dict[str, set[Right]] = defaultdict(set)
    for name, groups in json.loads(RECORD.read_text()).items():
        for group, kinds in groups.items():
            used[name] |= {(group, resource, verb) for resource, verbs in kinds.items() for verb in verbs}
    return used


def write_record(used: Mapping[str, set[Right]]) -> None:
    rows: dict[str, dict[str, dict[str, list[str]]]] = {}
    for name, rights in sorted(used.items()):
        for group, resource, verb in sorted(rights):
            rows.setdefault(name, {}).setdefault(group, {}).setdefault(resource, []).append(verb)
    RECORD.write_text(json.dumps(rows, indent=1) + "\n")


def main(folder: Path) -> None:
    lines = (line for path in sorted(folder.glob("*.log")) for line in path.open())
    used = used_rights(map(json.loads, lines))
    write_record(used)
    for name, rights in sorted(used.items()):
        sys.stdout.write(f"{name}: {len(rights)} rights used\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
