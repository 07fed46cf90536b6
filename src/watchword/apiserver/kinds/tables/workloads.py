"""Deployments, jobs and their scale, as one table of fields."""

TABLE = """\
package io.k8s.api.apps.v1
Deployment ; pods of one template, replaced gradually when it changes
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec DeploymentSpec ; what is wanted
  3 status DeploymentStatus ; what is observed, written by the control plane
DeploymentCondition
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  4 reason string ; one word for machines
  5 message string ; details for people
  6 lastUpdateTime time ; when the condition was last written
  7 lastTransitionTime time ; when the status last changed
DeploymentSpec
  1 replicas *int32 ; how many pods are wanted
  2 selector *LabelSelector ! + ; which pods belong to it; it can never change
  3 template PodTemplateSpec ! ; the pods that are created
  4 strategy DeploymentStrategy retainKeys ; how old pods are replaced by new ones
  5 minReadySeconds int32 ; how long a pod must be ready to count
  6 revisionHistoryLimit *int32 ; how many old revisions are kept
  7 paused bool ; whether changes are held back
  9 progressDeadlineSeconds *int32 ; when a rollout counts as stuck
DeploymentStatus
  1 observedGeneration int64 ; the generation this status answers to
  2 replicas int32 ; pods that exist
  3 updatedReplicas int32 ; pods of the newest template
  4 availableReplicas int32 ; pods that have been ready long enough
  5 unavailableReplicas int32 ; pods that are still missing
  6 conditions []DeploymentCondition map=type merge=type ; what is currently true of the object
  7 readyReplicas int32 ; pods that are ready
  8 collisionCount *int32
  9 terminatingReplicas *int32 ; pods that are going away
DeploymentStrategy
  1 type string ; Recreate or RollingUpdate
  2 rollingUpdate *RollingUpdateDeployment ; limits of a rolling update
ReplicaSet ; a number of equal pods
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec ReplicaSetSpec ; what is wanted
  3 status ReplicaSetStatus ; what is observed, written by the control plane
ReplicaSetCondition
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  3 lastTransitionTime time ; when the status last changed
  4 reason string ; one word for machines
  5 message string ; details for people
ReplicaSetSpec
  1 replicas *int32 ; how many pods are wanted
  2 selector *LabelSelector ! + ; which pods belong to it; it can never change
  3 template PodTemplateSpec ; the pods that are created
  4 minReadySeconds int32 ; how long a pod must be ready to count
ReplicaSetStatus
  1 replicas int32 ! + ; pods that exist
  2 fullyLabeledReplicas int32
  3 observedGeneration int64 ; the generation this status answers to
  4 readyReplicas int32 ; pods that are ready
  5 availableReplicas int32 ; pods that have been ready long enough
  6 conditions []ReplicaSetCondition map=type merge=type ; what is currently true of the object
  7 terminatingReplicas *int32 ; pods that are going away
RollingUpdateDeployment
  1 maxUnavailable *intstr ; how many pods may be missing meanwhile
  2 maxSurge *intstr ; how many pods may be too many meanwhile
package io.k8s.api.batch.v1
CronJob ; jobs at fixed times
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec CronJobSpec ; what is wanted
  3 status CronJobStatus ; what is observed, written by the control plane
CronJobSpec
  1 schedule string ! + ; when jobs start, in cron's form
  2 startingDeadlineSeconds *int64 ; how late a job may still start
  3 concurrencyPolicy string ; Allow, Forbid or Replace
  4 suspend *bool ; whether starting is held back
  5 jobTemplate JobTemplateSpec ! ; the jobs that are created
  6 successfulJobsHistoryLimit *int32 ; successful jobs that are kept
  7 failedJobsHistoryLimit *int32 ; failed jobs that are kept
  8 timeZone *string ; zone the schedule is read in
CronJobStatus
  1 active []ObjectReference ; jobs that run
  4 lastScheduleTime *time ; when a job last started
  5 lastSuccessfulTime *time ; when a job last succeeded
Job ; pods that run until enough of them succeed
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec JobSpec ; what is wanted
  3 status JobStatus ; what is observed, written by the control plane
JobCondition
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  3 lastProbeTime time ; when it was last looked at
  4 lastTransitionTime time ; when the status last changed
  5 reason string ; one word for machines
  6 message string ; details for people
JobSpec
  1 parallelism *int32 ; most pods at the same time
  2 completions *int32 ; successful pods that are needed
  3 activeDeadlineSeconds *int64 ; longest time it may run
  4 selector *LabelSelector ; which pods belong to it, filled in by the server
  5 manualSelector *bool ; whether its author chose the selector
  6 template PodTemplateSpec ! ; the pods that are created
  7 backoffLimit *int32 ; failures before the job fails
  8 ttlSecondsAfterFinished *int32 ; when a finished job is removed
  9 completionMode *string ; NonIndexed or Indexed
  10 suspend *bool ; whether starting is held back
  11 podFailurePolicy *PodFailurePolicy ; how failed pods are judged
  12 backoffLimitPerIndex *int32
  13 maxFailedIndexes *int32
  14 podReplacementPolicy *string ; when a pod is replaced
  15 managedBy *string
  16 successPolicy *SuccessPolicy
JobStatus
  1 conditions []JobCondition merge=type ; what is currently true of the object
  2 startTime *time ; when it started
  3 completionTime *time ; when it was done
  4 active int32 ; pods that run
  5 succeeded int32 ; pods that succeeded
  6 failed int32 ; pods that failed
  7 completedIndexes string
  8 uncountedTerminatedPods *UncountedTerminatedPods
  9 ready *int32 ; pods that are ready
  10 failedIndexes *string
  11 terminating *int32
JobTemplateSpec
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec JobSpec ; what is wanted
PodFailurePolicy
  1 rules []PodFailurePolicyRule ! +
PodFailurePolicyOnExitCodesRequirement
  1 containerName *string
  2 operator string ! + ; how key and values are compared
  3 values []int32 ! set + ; what the key is compared with
PodFailurePolicyOnPodConditionsPattern
  1 type string ! +
  2 status string + ; what is observed, written by the control plane
PodFailurePolicyRule
  1 action string ! + ; what a match leads to
  2 onExitCodes *PodFailurePolicyOnExitCodesRequirement
  3 onPodConditions []PodFailurePolicyOnPodConditionsPattern
SuccessPolicy
  1 rules []SuccessPolicyRule ! +
SuccessPolicyRule
  1 succeededIndexes *string
  2 succeededCount *int32
UncountedTerminatedPods
  1 succeeded []string set
  2 failed []string set
package io.k8s.api.autoscaling.v1
Scale ; the size of a workload
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec ScaleSpec ; what is wanted
  3 status ScaleStatus ; what is observed, written by the control plane
ScaleSpec
  1 replicas int32 ; how many pods are wanted
ScaleStatus
  1 replicas int32 ! + ; how many pods exist
  2 selector string ; which pods are counted
package io.k8s.api.policy.v1
Eviction ; asks for the removal of a pod from its node
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 deleteOptions *DeleteOptions ; how the pod is deleted
"""
