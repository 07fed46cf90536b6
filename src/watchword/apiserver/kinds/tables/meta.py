"""What every object carries, and the options of a delete, as one table of fields."""

TABLE = """\
package io.k8s.apimachinery.pkg.apis.meta.v1
Condition ; one aspect of an object's state
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  3 observedGeneration int64 ; the generation this status answers to
  4 lastTransitionTime time ! ; when the status last changed
  5 reason string ! + ; one word for machines
  6 message string ! + ; details for people
CreateOptions
  1 dryRun []string ; All: judge the request and store nothing
  3 fieldManager string ; who is recorded as owner of changed fields
  4 fieldValidation string ; what happens to unknown fields: Ignore, Warn or Strict
DeleteOptions ; how an object is deleted
  1 gracePeriodSeconds *int64 ; time left to the object; zero means now
  2 preconditions *Preconditions ; what must hold for the deletion to happen
  3 orphanDependents *bool ; older form of propagationPolicy
  4 propagationPolicy *string ; what happens to dependents: Orphan, Background or Foreground
  5 dryRun []string ; All: judge the request and store nothing
  6 ignoreStoreReadErrorWithClusterBreakingPotential *bool
FieldSelectorRequirement
  1 key string ! +
  2 operator string ! + ; how key and values are compared
  3 values []string ; what the key is compared with
LabelSelector atomic ; labels that objects must have
  1 matchLabels {}string ; labels that must have these values
  2 matchExpressions []LabelSelectorRequirement ; conditions on labels
LabelSelectorRequirement
  1 key string ! + ; label the condition looks at
  2 operator string ! + ; how key and values are compared
  3 values []string ; what the key is compared with
ListMeta ; revision of a list and where it goes on
  1 selfLink string ; no longer used
  2 resourceVersion string ; revision of the object
  3 continue string ; where the next part of the list begins
  4 remainingItemCount *int64 ; objects after this part
ManagedFieldsEntry ; fields that one manager owns
  1 manager string ; who owns the fields
  2 operation string ; Apply or Update
  3 apiVersion string ; group and version of the kind
  4 time *time ; when ownership last changed
  6 fieldsType string ; format of the set of fields
  7 fieldsV1 *json ; the fields, as a tree
  8 subresource string ; endpoint the fields were written through
ObjectMeta ; identity, labels and bookkeeping of an object
  1 name string ; unique within its namespace and kind
  2 generateName string ; prefix of a name that the server completes
  3 namespace string ; namespace the object lives in
  4 selfLink string ; no longer used
  5 uid string ; identity given at creation, never reused
  6 resourceVersion string ; changes with every write; send it back to write safely
  7 generation int64 ; grows with every change of what is wanted
  8 creationTimestamp time omit ; CreationTimestamp is a timestamp: when the server stored the object
  9 deletionTimestamp *time ; when deletion began; finalizers delay its end
  10 deletionGracePeriodSeconds *int64 ; time left to end by itself
  11 labels {}string ; short values to select by
  12 annotations {}string ; values that are kept and not selected by
  13 ownerReferences []OwnerReference map=uid merge=uid ; objects whose end is also the end of this one
  14 finalizers []string set merge ; names that must be removed before the object goes
  17 managedFields []ManagedFieldsEntry ; which manager owns which fields
OwnerReference atomic ; an owner of the object
  1 kind string ! + ; kind of what is named
  3 name string ! + ; name of the owner
  4 uid string ! + ; identity of the owner
  5 apiVersion string ! + ; group and version of the kind
  6 controller *bool ; whether this owner manages the object
  7 blockOwnerDeletion *bool ; whether foreground deletion of the owner waits for this object
PatchOptions
  1 dryRun []string ; All: judge the request and store nothing
  2 force *bool ; take over applied fields that others own
  3 fieldManager string ; who is recorded as owner of changed fields
  4 fieldValidation string ; what happens to unknown fields: Ignore, Warn or Strict
Preconditions
  1 uid *string ; only the object of this identity
  2 resourceVersion *string ; only the object at this revision
Status ; the outcome of a request
  1 metadata ListMeta ; identity, labels and bookkeeping of the object
  2 status string ; Success or Failure
  3 message string ; details for people
  4 reason string ; one word for machines
  5 details *StatusDetails ; what the answer is about
  6 code int32 ; HTTP code
StatusCause
  1 reason string ; one word for machines
  2 message string ; details for people
  3 field string ; field that is at fault
StatusDetails
  1 name string
  2 group string
  3 kind string ; kind of what is named
  4 causes []StatusCause ; each single problem
  5 retryAfterSeconds int32 ; when to try again
  6 uid string ; identity that no other object ever has
UpdateOptions
  1 dryRun []string ; All: judge the request and store nothing
  2 fieldManager string ; who is recorded as owner of changed fields
  3 fieldValidation string ; what happens to unknown fields: Ignore, Warn or Strict
"""
