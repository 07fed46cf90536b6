"""What every object carries, and the options of a delete, as one table of fields."""

TABLE = """\
package io.k8s.apimachinery.pkg.apis.meta.v1
Condition
  1 type string ! +
  2 status string ! +
  3 observedGeneration int64
  4 lastTransitionTime time !
  5 reason string ! +
  6 message string ! +
CreateOptions
  1 dryRun []string
  3 fieldManager string
  4 fieldValidation string
DeleteOptions
  1 gracePeriodSeconds *int64
  2 preconditions *Preconditions
  3 orphanDependents *bool
  4 propagationPolicy *string
  5 dryRun []string
  6 ignoreStoreReadErrorWithClusterBreakingPotential *bool
FieldSelectorRequirement
  1 key string ! +
  2 operator string ! +
  3 values []string
LabelSelector atomic
  1 matchLabels {}string
  2 matchExpressions []LabelSelectorRequirement
LabelSelectorRequirement
  1 key string ! +
  2 operator string ! +
  3 values []string
ListMeta
  1 selfLink string
  2 resourceVersion string
  3 continue string
  4 remainingItemCount *int64
ManagedFieldsEntry
  1 manager string
  2 operation string
  3 apiVersion string
  4 time *time
  6 fieldsType string
  7 fieldsV1 *json
  8 subresource string
ObjectMeta
  1 name string
  2 generateName string
  3 namespace string
  4 selfLink string
  5 uid string
  6 resourceVersion string
  7 generation int64
  8 creationTimestamp time omit
  9 deletionTimestamp *time
  10 deletionGracePeriodSeconds *int64
  11 labels {}string
  12 annotations {}string
  13 ownerReferences []OwnerReference map=uid merge=uid
  14 finalizers []string set merge
  17 managedFields []ManagedFieldsEntry
OwnerReference atomic
  1 kind string ! +
  3 name string ! +
  4 uid string ! +
  5 apiVersion string ! +
  6 controller *bool
  7 blockOwnerDeletion *bool
PatchOptions
  1 dryRun []string
  2 force *bool
  3 fieldManager string
  4 fieldValidation string
Preconditions
  1 uid *string
  2 resourceVersion *string
Status
  1 metadata ListMeta
  2 status string
  3 message string
  4 reason string
  5 details *StatusDetails
  6 code int32
StatusCause
  1 reason string
  2 message string
  3 field string
StatusDetails
  1 name string
  2 group string
  3 kind string
  4 causes []StatusCause
  5 retryAfterSeconds int32
  6 uid string
UpdateOptions
  1 dryRun []string
  2 fieldManager string
  3 fieldValidation string
"""
