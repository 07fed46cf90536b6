"""Schemas of the work a hub hands to a cluster."""

from __future__ import annotations

from watchword.api import resources
from watchword.api.crds.parts import (
    AGE,
    DNS_SUBDOMAIN,
    choice,
    condition_column,
    conditions,
    definition,
    flag,
    instant,
    listing,
    record,
    text,
    version,
    whole,
)
from watchword.api.meta import Object


def resource_identifier(description: str) -> Object:
    """Return the coordinates of one object on the cluster."""
    fields = {
        "group": text("The API group; empty for core."),
        "resource": text("The resource, plural."),
        "namespace": text("The namespace; empty for cluster-scoped objects."),
        "name": text("The name."),
    }
    return record(description, fields, required=("name", "resource"))


DELETE_OPTION = record(
    "What happens to the objects when the work is deleted.",
    {
        "propagationPolicy": choice(
            "Delete all, keep all, or keep some.", "Foreground", "Orphan", "SelectivelyOrphan", default="Foreground"
        ),
        "selectivelyOrphans": record(
            "What is kept under SelectivelyOrphan.",
            {"orphaningRules": listing("The objects kept.", resource_identifier("One object kept."))},
        ),
        "ttlSecondsAfterFinished": whole("Delete the work this long after it is complete.", bits=64),
    },
)

_SERVICE_ACCOUNT = record(
    "A ServiceAccount on the cluster.",
    {
        "namespace": text("Its namespace.", minLength=1, maxLength=253, pattern=DNS_SUBDOMAIN),
        "name": text("Its name.", minLength=1, maxLength=253, pattern=DNS_SUBDOMAIN),
    },
    required=("name", "namespace"),
)

EXECUTOR = record(
    "On whose behalf the manifests are applied.",
    {
        "subject": record(
            "The identity whose rights are checked.",
            {"type": choice("The kind of identity.", "ServiceAccount"), "serviceAccount": _SERVICE_ACCOUNT},
            required=("type",),
        )
    },
)

_JSON_PATH = record(
    "One value to report.",
    {
        "name": text("The name it is reported under."),
        "version": text("The API version to read it from."),
        "path": text("A JSONPath into the object's status."),
    },
    required=("name", "path"),
)

_FEEDBACK_RULE = record(
    "What to report back about an object.",
    {
        "type": choice("Ready-made values, or paths of one's own.", "WellKnownStatus", "JSONPaths"),
        "jsonPaths": listing("The paths reported under JSONPaths.", _JSON_PATH, keys=("name",)),
    },
    required=("type",),
)

_CONDITION_RULE = record(
    "A condition computed from an object.",
    {
        "condition": text("The condition's type."),
        "type": choice("How it is computed.", "WellKnownConditions", "CEL"),
        "celExpressions": listing("Expressions that must all hold.", text("One expression.")),
        "message": text("The condition's message."),
        "messageExpression": text("An expression that gives the message."),
    },
    required=("condition", "type"),
)

_IGNORE_FIELDS = record(
    "Fields that are left to the cluster.",
    {
        "condition": choice("When they are left.", "OnSpokePresent", "OnSpokeChange", default="OnSpokePresent"),
        "jsonPaths": listing("Fields as JSONPath.", text("One path.")),
        "jsonPointers": listing("Fields as JSON Pointer.", text("One pointer.")),
        "jqPathExpressions": listing("Fields as jq paths.", text("One path.")),
    },
    required=("condition",),
)

_UPDATE_STRATEGY = record(
    "How an object is kept as wanted.",
    {
        "type": choice("The strategy.", "Update", "CreateOnly", "ServerSideApply", "ReadOnly", default="Update"),
        "serverSideApply": record(
            "Details of ServerSideApply.",
            {
                "force": flag("Take fields from other managers."),
                "fieldManager": text("The manager's name.", default="work-agent", pattern="^work-agent"),
                "ignoreFields": listing("Fields left to the cluster.", _IGNORE_FIELDS, keys=("condition",)),
            },
        ),
    },
    required=("type",),
)

MANIFEST_CONFIG = record(
    "How one of the manifests is treated.",
    {
        "resourceIdentifier": resource_identifier("The manifest it is about; * matches any name."),
        "feedbackRules": listing("What to report back.", _FEEDBACK_RULE),
        "feedbackScrapeType": choice("How values are gathered.", "Poll", "Watch", default="Poll"),
        "conditionRules": listing("Conditions computed.", _CONDITION_RULE, keys=("condition",)),
        "updateStrategy": _UPDATE_STRATEGY,
    },
    required=("resourceIdentifier",),
)

MANIFESTS = listing(
    "The objects, whole.",
    {
        "type": "object",
        "description": "One object.",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
)

WORK_SPEC: dict[str, Object] = {
    "workload": record("What to apply.", {"manifests": MANIFESTS}),
    "deleteOption": DELETE_OPTION,
    "manifestConfigs": listing("How single manifests are treated.", MANIFEST_CONFIG),
    "executor": EXECUTOR,
}

_FIELD_VALUE = record(
    "A value of one of four types.",
    {
        "type": choice("The type.", "Integer", "String", "Boolean", "JsonRaw"),
        "integer": whole("The value, when an integer.", bits=64),
        "string": text("The value, when a string."),
        "boolean": flag("The value, when a boolean."),
        "jsonRaw": text("The value as JSON.", maxLength=1024),
    },
    required=("type",),
)

_FEEDBACK_VALUE = record(
    "One reported value.",
    {"name": text("Its name."), "fieldValue": _FIELD_VALUE},
    required=("fieldValue", "name"),
)

_RESOURCE_META = record(
    "Which manifest it is.",
    {
        "ordinal": whole("Its place in the list."),
        "group": text("The API group."),
        "version": text("The API version."),
        "kind": text("The kind."),
        "resource": text("The resource, plural."),
        "namespace": text("The namespace."),
        "name": text("The name."),
    },
    required=("ordinal",),
)

_MANIFEST_STATUS = record(
    "How one manifest fares.",
    {
        "resourceMeta": _RESOURCE_META,
        "statusFeedback": record(
            "What was asked to be reported.",
            {"values": listing("The values.", _FEEDBACK_VALUE, keys=("name",))},
        ),
        "conditions": conditions(),
    },
    required=("conditions", "resourceMeta"),
)

MANIFEST_WORK = definition(
    resources.MANIFEST_WORKS,
    version(
        "v1",
        "Objects that a cluster is asked to have.",
        {
            "spec": record("What is wanted.", WORK_SPEC),
            "status": record(
                "What the agent reports.",
                {
                    "conditions": conditions(),
                    "resourceStatus": record(
                        "How the manifests fare.", {"manifests": listing("One entry each.", _MANIFEST_STATUS)}
                    ),
                },
            ),
        },
        columns=(condition_column("Applied", "Applied"), condition_column("Available", "Available"), AGE),
    ),
)

_APPLIED_RESOURCE = record(
    "An object that was applied.",
    {
        "group": text("The API group."),
        "version": text("The API version."),
        "resource": text("The resource, plural."),
        "namespace": text("The namespace."),
        "name": text("The name."),
        "uid": text("The UID, so that a namesake is never mistaken for it."),
    },
    required=("name", "resource", "version"),
)

APPLIED_MANIFEST_WORK = definition(
    resources.APPLIED_MANIFEST_WORKS,
    version(
        "v1",
        "The record, on the cluster, of what one work has applied.",
        {
            "spec": record(
                "Which work it is.",
                {
                    "hubHash": text("A hash of the hub's address."),
                    "agentID": text("Which agent applied it."),
                    "manifestWorkName": text("The work's name on the hub."),
                },
                required=("hubHash", "manifestWorkName"),
            ),
            "status": record(
                "What it has applied.",
                {
                    "appliedResources": listing("The objects.", _APPLIED_RESOURCE),
                    "evictionStartTime": instant("When the work was first missed on the hub."),
                },
            ),
        },
    ),
)
