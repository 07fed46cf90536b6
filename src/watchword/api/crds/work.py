"""Schemas of the work that a hub assigns to a cluster."""

from watchword.api import resources
from watchword.api.crds.schema import AGE, condition_column, definition, fields

WORK_PARTS = fields("""
resourceIdentifier: An object.
  group: The API group; empty for core.
  resource*: The resource, plural.
  namespace: The namespace; empty for cluster-scoped objects.
  name*: The name.
deleteOption: What happens to the objects when the work is deleted.
  propagationPolicy enum(Foreground,Orphan,SelectivelyOrphan) default=Foreground: Delete all, keep all, or keep some.
  selectivelyOrphans: What is kept under SelectivelyOrphan.
    orphaningRules list: The objects kept.
      - @resourceIdentifier: One object kept.
  ttlSecondsAfterFinished int64: Delete the work this long after it is complete.
executor: On whose behalf the manifests are applied.
  subject: The identity whose rights are checked.
    type* enum(ServiceAccount): The kind of identity.
    serviceAccount: A ServiceAccount on the cluster.
      namespace* maxLength=253 minLength=1 pattern=DNS_SUBDOMAIN: Its namespace.
      name* maxLength=253 minLength=1 pattern=DNS_SUBDOMAIN: Its name.
manifestConfig: How one of the manifests is treated.
  resourceIdentifier* @resourceIdentifier: The manifest it is about; * matches any name.
  feedbackRules list: What to report back.
    -: What to report back about an object.
      type* enum(WellKnownStatus,JSONPaths): Ready-made values, or paths of one's own.
      jsonPaths list keys=name: The paths reported under JSONPaths.
        -: One value to report.
          name*: The name it is reported under.
          version: The API version to read it from.
          path*: A JSONPath into the object's status.
  feedbackScrapeType enum(Poll,Watch) default=Poll: How values are gathered.
  conditionRules list keys=condition: Conditions computed.
    -: A condition computed from an object.
      condition*: The condition's type.
      type* enum(WellKnownConditions,CEL): How it is computed.
      celExpressions list: Expressions that must all hold.
        -: One expression.
      message: The condition's message.
      messageExpression: An expression that gives the message.
  updateStrategy: How an object is kept as wanted.
    type* enum(Update,CreateOnly,ServerSideApply,ReadOnly) default=Update: The strategy.
    serverSideApply: Details of ServerSideApply.
      force boolean: Take fields from other managers.
      fieldManager default=work-agent pattern="^work-agent": The manager's name.
      ignoreFields list keys=condition: Fields left to the cluster.
        -: Fields that are left to the cluster.
          condition* enum(OnSpokePresent,OnSpokeChange) default=OnSpokePresent: When they are left.
          jsonPaths list: Fields as JSONPath.
            -: One path.
          jsonPointers list: Fields as JSON Pointer.
            -: One pointer.
          jqPathExpressions list: Fields as jq paths.
            -: One path.
manifests list: The objects, whole.
  - object x-kubernetes-embedded-resource=true x-kubernetes-preserve-unknown-fields=true: One object.
""")
"""Parts of a work that the schemas of add-ons have, too."""

MANIFEST_WORK = definition(
    resources.MANIFEST_WORKS,
    "Objects that a cluster is asked to have.",
    # The integer is any int64: servers keep bounds as floats, which cannot hold its largest value.
    """
spec: What is wanted.
  workload: What to apply.
    manifests @manifests
  deleteOption @deleteOption
  manifestConfigs list: How single manifests are treated.
    - @manifestConfig
  executor @executor
status: What the agent reports.
  conditions @conditions
  resourceStatus: The status of each manifest.
    manifests list: One entry each.
      -: The status of one manifest.
        resourceMeta*: Which manifest it is.
          ordinal* int32: Its place in the list.
          group: The API group.
          version: The API version.
          kind: The kind.
          resource: The resource, plural.
          namespace: The namespace.
          name: The name.
        statusFeedback: What was asked to be reported.
          values list keys=name: The values.
            -: One reported value.
              name*: Its name.
              fieldValue*: A value of one of four types.
                type* enum(Integer,String,Boolean,JsonRaw): The type.
                integer anyInt64: The value, when an integer.
                string: The value, when a string.
                boolean boolean: The value, when a boolean.
                jsonRaw maxLength=1024: The value as JSON.
        conditions* @conditions
""",
    parts=WORK_PARTS,
    columns=(condition_column("Applied", "Applied"), condition_column("Available", "Available"), AGE),
)

APPLIED_MANIFEST_WORK = definition(
    resources.APPLIED_MANIFEST_WORKS,
    "The record, on the cluster, of what one work has applied.",
    """
spec: Which work it is.
  hubHash*: A hash of the hub's address.
  agentID: Which agent applied it.
  manifestWorkName*: The work's name on the hub.
status: What it has applied.
  appliedResources list: The objects.
    -: An object that was applied.
      group: The API group.
      version*: The API version.
      resource*: The resource, plural.
      namespace: The namespace.
      name*: The name.
      uid: The UID, so that a namesake is never mistaken for it.
  evictionStartTime dateTime: When the work was first missed on the hub.
""",
    columns=(),
)
