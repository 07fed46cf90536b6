"""Which incidents of the simulation `live` has on sockets, and why it has the others not."""

from __future__ import annotations

from collections.abc import Mapping

LIVED: Mapping[str, str] = {
    "agent_crash": "every program is killed",
    "api_outage": "the control plane is killed",
    "cluster_api_outage": "the control plane is killed",
    "hub_crash": "the hub is killed",
    "hub_outage": "the hub is killed",
    "programs_replaced": "every program is replaced during a rotation",
    "request_faults": "every connection is reset",
    "watch_faults": "every connection is reset",
    "hub_partition": "every connection is refused for 5 s",
    "partition": "every connection is refused for 5 s",
    "stale_agent": "every connection is silent for 5 s",
    "stale_hub": "every connection is silent for 5 s",
    "cluster_token_key": "signing key changed: every token",
    "hub_token_key": "signing key changed: every token",
    "denial": "cluster: denied, and accepted again",
    "object_deleted": "cluster: binding deleted",
    "rotation": "cluster: renewal requested twice",
    "addon_credential_lost": "add-on: credential deleted",
    "addon_token_damaged": "add-on: token overwritten",
    "addon_removed": "account: add-on disabled, its tokens are dead",
    "accounts_disabled": "account: add-on disabled, its tokens are dead",
    "account_unmarked_and_deleted": "account: deleted after its marks were removed",
    "account_name_taken": "account: a ServiceAccount of another hand is in the way",
    "local_account_lost": "account: ServiceAccount deleted",
    "token_secret_changed": "account: token overwritten",
    "configuration_damaged": "pull secret: configuration damaged",
    "pull_secret_changed": "pull secret: overwritten",
    "registries_changed": "pull secret: registries changed nine times in 32 s",
}
"""The kind in the simulation, and the incident of `live` that comes closest."""

CLOCK = "every process here has the clock of the machine"
HAS_NO = "the fleet of the benches has no"
SAME = "a change of objects alone, which takes the same way as those that are lived"
NEEDS_LIMIT = "needs a file system or a limit of memory of its own"

NOT_LIVED: Mapping[str, str] = {
    "authority": "the tasks of the fleet keep the CA with which they were made",
    "hub_moved": "the tasks of the fleet keep the address with which they were made",
    "backup_restored": "needs a backup of the data of a process",
    "clock_jump": CLOCK,
    "hub_clock_jump": CLOCK,
    "skew": CLOCK,
    "suspend": CLOCK,
    "disk_full": NEEDS_LIMIT,
    "cluster_disk_full": NEEDS_LIMIT,
    "memory_refused": NEEDS_LIMIT,
    "credential_damaged": "a person decides about the new key; `outage` has it",
    "credential_lost": "a person decides about the new key; `outage` has it",
    "hostile_cluster": SAME,
    "removal": "the clusters of the fleet join once",
    "rotation_while_joining": "the clusters of the fleet join once",
    "worst_moment": "the clusters of the fleet join once",
    "account_lost": SAME,
    "addon_role_taken": SAME,
    "agent_role_taken": SAME,
    "account_deleted": SAME,
    "account_rotation": SAME,
    "account_unmarked": SAME,
    "accounts_churned": SAME,
    "pull_secret_unlisted": SAME,
    "agent_account_replaced": "the accounts' agent of the fleet is no pod with a ServiceAccount",
    "server_address_changed": "the accounts' agent of the fleet has a fixed address",
    "set_left": f"{HAS_NO} cluster sets",
    "set_unbound": f"{HAS_NO} cluster sets",
    "work_object_changed": f"{HAS_NO} works",
    "work_removed": f"{HAS_NO} works",
    **dict.fromkeys(
        (
            *("aws_forbidden", "aws_throttles", "aws_unreachable", "claim_changed", "role_changed", "role_deleted"),
            "sts_unreachable",
        ),
        f"{HAS_NO} AWS account",
    ),
    **dict.fromkeys(
        (
            *("deployed_object_lost", "deployment_withdrawn", "image_changed", "replicas_changed", "spec_edited"),
            "spec_invalid",
        ),
        f"{HAS_NO} operator: what it deploys needs a node",
    ),
    **dict.fromkeys(
        (
            *("grpc_authority_lost", "grpc_authority_rotated", "grpc_bundle_damaged", "grpc_certificate_changed"),
            *("grpc_connections_cut", "grpc_late", "grpc_server_moved", "grpc_server_outage", "grpc_server_replaced"),
            "grpc_silence",
        ),
        f"{HAS_NO} gRPC server",
    ),
    **dict.fromkeys(("ocm_agent_in_charge", "ocm_hub_in_charge"), f"{HAS_NO} program of Open Cluster Management"),
}
"""The kind in the simulation, and why no incident of `live` corresponds."""
