"""Schemas of the work that a hub assigns to a cluster."""

from watchword.api import resources
from watchword.api.crds import schema
from watchword.api.meta import Object


def resource_identifier(description: str) -> Object:
    fields = {
        "group": schema.string("The API group; empty for core."),
        "resource": schema.string("The resource, plural."),
        "namespace": schema.string("The namespace; empty for cluster-scoped objects."),
        "name": schema.string("The name."),
    }
    return schema.record(description, fields, required=("name", "resource"))


DELETE_OPTION = schema.record(
    "What happens to the objects when the work is deleted.",
    {
        "propagationPolicy": schema.string_enum(
            "Delete all, keep all, or keep some.", "Foreground", "Orphan", "SelectivelyOrphan", default="Foreground"
        ),
        "selectivelyOrphans": schema.record(
            "What is kept under SelectivelyOrphan.",
            {"orphaningRules": schema.array("The objects kept.", resource_identifier("One object kept."))},
        ),
        "ttlSecondsAfterFinished": schema.whole("Delete the work this long after it is complete.", bits=64),
    },
)

_SERVICE_ACCOUNT = schema.record(
    "A ServiceAccount on the cluster.",
    {
        "namespace": schema.string("Its namespace.", minLength=1, maxLength=253, pattern=schema.DNS_SUBDOMAIN),
        "name": schema.string("Its name.", minLength=1, maxLength=253, pattern=schema.DNS_SUBDOMAIN),
    },
    required=("name", "namespace"),
)

EXECUTOR = schema.record(
    "On whose behalf the manifests are applied.",
    {
        "subject": schema.record(
            "The identity whose rights are checked.",
            {"type": schema.string_enum("The kind of identity.", "ServiceAccount"), "serviceAccount": _SERVICE_ACCOUNT},
            required=("type",),
        )
    },
)

_JSON_PATH = schema.record(
    "One value to report.",
    {
        "name": schema.string("The name it is reported under."),
        "version": schema.string("The API version to read it from."),
        "path": schema.string("A JSONPath into the object's status."),
    },
    required=("name", "path"),
)

_FEEDBACK_RULE = schema.record(
    "What to report back about an object.",
    {
        "type": schema.string_enum("Ready-made values, or paths of one's own.", "WellKnownStatus", "JSONPaths"),
        "jsonPaths": schema.array("The paths reported under JSONPaths.", _JSON_PATH, keys=("name",)),
    },
    required=("type",),
)

_CONDITION_RULE = schema.record(
    "A condition computed from an object.",
    {
        "condition": schema.string("The condition's type."),
        "type": schema.string_enum("How it is computed.", "WellKnownConditions", "CEL"),
        "celExpressions": schema.array("Expressions that must all hold.", schema.string("One expression.")),
        "message": schema.string("The condition's message."),
        "messageExpression": schema.string("An expression that gives the message."),
    },
    required=("condition", "type"),
)

_IGNORE_FIELDS = schema.record(
    "Fields that are left to the cluster.",
    {
        "condition": schema.string_enum(
            "When they are left.", "OnSpokePresent", "OnSpokeChange", default="OnSpokePresent"
        ),
        "jsonPaths": schema.array("Fields as JSONPath.", schema.string("One path.")),
        "jsonPointers": schema.array("Fields as JSON Pointer.", schema.string("One pointer.")),
        "jqPathExpressions": schema.array("Fields as jq paths.", schema.string("One path.")),
    },
    required=("condition",),
)

_UPDATE_STRATEGY = schema.record(
    "How an object is kept as wanted.",
    {
        "type": schema.string_enum(
            "The strategy.", "Update", "CreateOnly", "ServerSideApply", "ReadOnly", default="Update"
        ),
        "serverSideApply": schema.record(
            "Details of ServerSideApply.",
            {
                "force": schema.boolean("Take fields from other managers."),
                "fieldManager": schema.string("The manager's name.", default="work-agent", pattern="^work-agent"),
                "ignoreFields": schema.array("Fields left to the cluster.", _IGNORE_FIELDS, keys=("condition",)),
            },
        ),
    },
    required=("type",),
)

MANIFEST_CONFIG = schema.record(
    "How one of the manifests is treated.",
    {
        "resourceIdentifier": resource_identifier("The manifest it is about; * matches any name."),
        "feedbackRules": schema.array("What to report back.", _FEEDBACK_RULE),
        "feedbackScrapeType": schema.string_enum("How values are gathered.", "Poll", "Watch", default="Poll"),
        "conditionRules": schema.array("Conditions computed.", _CONDITION_RULE, keys=("condition",)),
        "updateStrategy": _UPDATE_STRATEGY,
    },
    required=("resourceIdentifier",),
)

MANIFESTS = schema.array(
    "The objects, whole.",
    {
        "type": "object",
        "description": "One object.",
        "x-kubernetes-embedded-resource": True,
        "x-kubernetes-preserve-unknown-fields": True,
    },
)

WORK_SPEC: dict[str, Object] = {
    "workload": schema.record("What to apply.", {"manifests": MANIFESTS}),
    "deleteOption": DELETE_OPTION,
    "manifestConfigs": schema.array("How single manifests are treated.", MANIFEST_CONFIG),
    "executor": EXECUTOR,
}

_FIELD_VALUE = schema.record(
    "A value of one of four types.",
    {
        "type": schema.string_enum("The type.", "Integer", "String", "Boolean", "JsonRaw"),
        # Any int64: servers keep bounds as floats, which cannot hold its largest value.
        "integer": {"type": "integer", "format": "int64", "description": "The value, when an integer."},
        "string": schema.string("The value, when a string."),
        "boolean": schema.boolean("The value, when a boolean."),
        "jsonRaw": schema.string("The value as JSON.", maxLength=1024),
    },
    required=("type",),
)

_FEEDBACK_VALUE = schema.record(
    "One reported value.",
    {"name": schema.string("Its name."), "fieldValue": _FIELD_VALUE},
    required=("fieldValue", "name"),
)

_RESOURCE_META = schema.record(
    "Which manifest it is.",
    {
        "ordinal": schema.whole("Its place in the list."),
        "group": schema.string("The API group."),
        "version": schema.string("The API version."),
        "kind": schema.string("The kind."),
        "resource": schema.string("The resource, plural."),
        "namespace": schema.string("The namespace."),
        "name": schema.string("The name."),
    },
    required=("ordinal",),
)

_MANIFEST_STATUS = schema.record(
    "How one manifest fares.",
    {
        "resourceMeta": _RESOURCE_META,
        "statusFeedback": schema.record(
            "What was asked to be reported.",
            {"values": schema.array("The values.", _FEEDBACK_VALUE, keys=("name",))},
        ),
        "conditions": schema.conditions(),
    },
    required=("conditions", "resourceMeta"),
)

MANIFEST_WORK = schema.definition(
    resources.MANIFEST_WORKS,
    schema.version(
        "v1",
        "Objects that a cluster is asked to have.",
        {
            "spec": schema.record("What is wanted.", WORK_SPEC),
            "status": schema.record(
                "What the agent reports.",
                {
                    "conditions": schema.conditions(),
                    "resourceStatus": schema.record(
                        "How the manifests fare.", {"manifests": schema.array("One entry each.", _MANIFEST_STATUS)}
                    ),
                },
            ),
        },
        columns=(
            schema.condition_column("Applied", "Applied"),
            schema.condition_column("Available", "Available"),
            schema.AGE,
        ),
    ),
)

_APPLIED_RESOURCE = schema.record(
    "An object that was applied.",
    {
        "group": schema.string("The API group."),
        "version": schema.string("The API version."),
        "resource": schema.string("The resource, plural."),
        "namespace": schema.string("The namespace."),
        "name": schema.string("The name."),
        "uid": schema.string("The UID, so that a namesake is never mistaken for it."),
    },
    required=("name", "resource", "version"),
)

APPLIED_MANIFEST_WORK = schema.definition(
    resources.APPLIED_MANIFEST_WORKS,
    schema.version(
        "v1",
        "The record, on the cluster, of what one work has applied.",
        {
            "spec": schema.record(
                "Which work it is.",
                {
                    "hubHash": schema.string("A hash of the hub's address."),
                    "agentID": schema.string("Which agent applied it."),
                    "manifestWorkName": schema.string("The work's name on the hub."),
                },
                required=("hubHash", "manifestWorkName"),
            ),
            "status": schema.record(
                "What it has applied.",
                {
                    "appliedResources": schema.array("The objects.", _APPLIED_RESOURCE),
                    "evictionStartTime": schema.date_time("When the work was first missed on the hub."),
                },
            ),
        },
    ),
)
