"""Schemas of the work that a hub assigns to a cluster."""

from watchword.api import resources
from watchword.api.crds.schema import (
    AGE,
    DNS_SUBDOMAIN,
    array,
    boolean,
    condition_column,
    conditions,
    date_time,
    definition,
    record,
    string,
    string_enum,
    version,
    whole,
)
from watchword.api.meta import Object


def resource_identifier(description: str) -> Object:
    fields = {
        "group": string("The API group; empty for core."),
        "resource": string("The resource, plural."),
        "namespace": string("The namespace; empty for cluster-scoped objects."),
        "name": string("The name."),
    }
    return record(description, fields, required=("name", "resource"))


DELETE_OPTION = record(
    "What happens to the objects when the work is deleted.",
    {
        "propagationPolicy": string_enum(
            "Delete all, keep all, or keep some.", "Foreground", "Orphan", "SelectivelyOrphan", default="Foreground"
        ),
        "selectivelyOrphans": record(
            "What is kept under SelectivelyOrphan.",
            {"orphaningRules": array("The objects kept.", resource_identifier("One object kept."))},
        ),
        "ttlSecondsAfterFinished": whole("Delete the work this long after it is complete.", bits=64),
    },
)

_SERVICE_ACCOUNT = record(
    "A ServiceAccount on the cluster.",
    {
        "namespace": string("Its namespace.", minLength=1, maxLength=253, pattern=DNS_SUBDOMAIN),
        "name": string("Its name.", minLength=1, maxLength=253, pattern=DNS_SUBDOMAIN),
    },
    required=("name", "namespace"),
)

EXECUTOR = record(
    "On whose behalf the manifests are applied.",
    {
        "subject": record(
            "The identity whose rights are checked.",
            {"type": string_enum("The kind of identity.", "ServiceAccount"), "serviceAccount": _SERVICE_ACCOUNT},
            required=("type",),
        )
    },
)

_JSON_PATH = record(
    "One value to report.",
    {
        "name": string("The name it is reported under."),
        "version": string("The API version to read it from."),
        "path": string("A JSONPath into the object's status."),
    },
    required=("name", "path"),
)

_FEEDBACK_RULE = record(
    "What to report back about an object.",
    {
        "type": string_enum("Ready-made values, or paths of one's own.", "WellKnownStatus", "JSONPaths"),
        "jsonPaths": array("The paths reported under JSONPaths.", _JSON_PATH, keys=("name",)),
    },
    required=("type",),
)

_CONDITION_RULE = record(
    "A condition computed from an object.",
    {
        "condition": string("The condition's type."),
        "type": string_enum("How it is computed.", "WellKnownConditions", "CEL"),
        "celExpressions": array("Expressions that must all hold.", string("One expression.")),
        "message": string("The condition's message."),
        "messageExpression": string("An expression that gives the message."),
    },
    required=("condition", "type"),
)

_IGNORE_FIELDS = record(
    "Fields that are left to the cluster.",
    {
        "condition": string_enum("When they are left.", "OnSpokePresent", "OnSpokeChange", default="OnSpokePresent"),
        "jsonPaths": array("Fields as JSONPath.", string("One path.")),
        "jsonPointers": array("Fields as JSON Pointer.", string("One pointer.")),
        "jqPathExpressions": array("Fields as jq paths.", string("One path.")),
    },
    required=("condition",),
)

_UPDATE_STRATEGY = record(
    "How an object is kept as wanted.",
    {
        "type": string_enum("The strategy.", "Update", "CreateOnly", "ServerSideApply", "ReadOnly", default="Update"),
        "serverSideApply": record(
            "Details of ServerSideApply.",
            {
                "force": boolean("Take fields from other managers."),
                "fieldManager": string("The manager's name.", default="work-agent", pattern="^work-agent"),
                "ignoreFields": array("Fields left to the cluster.", _IGNORE_FIELDS, keys=("condition",)),
            },
        ),
    },
    required=("type",),
)

MANIFEST_CONFIG = record(
    "How one of the manifests is treated.",
    {
        "resourceIdentifier": resource_identifier("The manifest it is about; * matches any name."),
        "feedbackRules": array("What to report back.", _FEEDBACK_RULE),
        "feedbackScrapeType": string_enum("How values are gathered.", "Poll", "Watch", default="Poll"),
        "conditionRules": array("Conditions computed.", _CONDITION_RULE, keys=("condition",)),
        "updateStrategy": _UPDATE_STRATEGY,
    },
    required=("resourceIdentifier",),
)

MANIFESTS = array(
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
    "manifestConfigs": array("How single manifests are treated.", MANIFEST_CONFIG),
    "executor": EXECUTOR,
}

_FIELD_VALUE = record(
    "A value of one of four types.",
    {
        "type": string_enum("The type.", "Integer", "String", "Boolean", "JsonRaw"),
        # Any int64: servers keep bounds as floats, which cannot hold its largest value.
        "integer": {"type": "integer", "format": "int64", "description": "The value, when an integer."},
        "string": string("The value, when a string."),
        "boolean": boolean("The value, when a boolean."),
        "jsonRaw": string("The value as JSON.", maxLength=1024),
    },
    required=("type",),
)

_FEEDBACK_VALUE = record(
    "One reported value.",
    {"name": string("Its name."), "fieldValue": _FIELD_VALUE},
    required=("fieldValue", "name"),
)

_RESOURCE_META = record(
    "Which manifest it is.",
    {
        "ordinal": whole("Its place in the list."),
        "group": string("The API group."),
        "version": string("The API version."),
        "kind": string("The kind."),
        "resource": string("The resource, plural."),
        "namespace": string("The namespace."),
        "name": string("The name."),
    },
    required=("ordinal",),
)

_MANIFEST_STATUS = record(
    "How one manifest fares.",
    {
        "resourceMeta": _RESOURCE_META,
        "statusFeedback": record(
            "What was asked to be reported.",
            {"values": array("The values.", _FEEDBACK_VALUE, keys=("name",))},
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
                        "How the manifests fare.", {"manifests": array("One entry each.", _MANIFEST_STATUS)}
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
        "group": string("The API group."),
        "version": string("The API version."),
        "resource": string("The resource, plural."),
        "namespace": string("The namespace."),
        "name": string("The name."),
        "uid": string("The UID, so that a namesake is never mistaken for it."),
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
                    "hubHash": string("A hash of the hub's address."),
                    "agentID": string("Which agent applied it."),
                    "manifestWorkName": string("The work's name on the hub."),
                },
                required=("hubHash", "manifestWorkName"),
            ),
            "status": record(
                "What it has applied.",
                {
                    "appliedResources": array("The objects.", _APPLIED_RESOURCE),
                    "evictionStartTime": date_time("When the work was first missed on the hub."),
                },
            ),
        },
    ),
)
