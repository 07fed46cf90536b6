"""Deployments, jobs and their scale, as one table of fields."""

TABLE = """\
package io.k8s.api.apps.v1
Deployment
  1 metadata ObjectMeta
  2 spec DeploymentSpec
  3 status DeploymentStatus
DeploymentCondition
  1 type string ! +
  2 status string ! +
  4 reason string
  5 message string
  6 lastUpdateTime time
  7 lastTransitionTime time
DeploymentSpec
  1 replicas *int32
  2 selector *LabelSelector ! +
  3 template PodTemplateSpec !
  4 strategy DeploymentStrategy retainKeys
  5 minReadySeconds int32
  6 revisionHistoryLimit *int32
  7 paused bool
  9 progressDeadlineSeconds *int32
DeploymentStatus
  1 observedGeneration int64
  2 replicas int32
  3 updatedReplicas int32
  4 availableReplicas int32
  5 unavailableReplicas int32
  6 conditions []DeploymentCondition map=type merge=type
  7 readyReplicas int32
  8 collisionCount *int32
  9 terminatingReplicas *int32
DeploymentStrategy
  1 type string
  2 rollingUpdate *RollingUpdateDeployment
ReplicaSet
  1 metadata ObjectMeta
  2 spec ReplicaSetSpec
  3 status ReplicaSetStatus
ReplicaSetCondition
  1 type string ! +
  2 status string ! +
  3 lastTransitionTime time
  4 reason string
  5 message string
ReplicaSetSpec
  1 replicas *int32
  2 selector *LabelSelector ! +
  3 template PodTemplateSpec
  4 minReadySeconds int32
ReplicaSetStatus
  1 replicas int32 ! +
  2 fullyLabeledReplicas int32
  3 observedGeneration int64
  4 readyReplicas int32
  5 availableReplicas int32
  6 conditions []ReplicaSetCondition map=type merge=type
  7 terminatingReplicas *int32
RollingUpdateDeployment
  1 maxUnavailable *intstr
  2 maxSurge *intstr
package io.k8s.api.batch.v1
CronJob
  1 metadata ObjectMeta
  2 spec CronJobSpec
  3 status CronJobStatus
CronJobSpec
  1 schedule string ! +
  2 startingDeadlineSeconds *int64
  3 concurrencyPolicy string
  4 suspend *bool
  5 jobTemplate JobTemplateSpec !
  6 successfulJobsHistoryLimit *int32
  7 failedJobsHistoryLimit *int32
  8 timeZone *string
CronJobStatus
  1 active []ObjectReference
  4 lastScheduleTime *time
  5 lastSuccessfulTime *time
Job
  1 metadata ObjectMeta
  2 spec JobSpec
  3 status JobStatus
JobCondition
  1 type string ! +
  2 status string ! +
  3 lastProbeTime time
  4 lastTransitionTime time
  5 reason string
  6 message string
JobSpec
  1 parallelism *int32
  2 completions *int32
  3 activeDeadlineSeconds *int64
  4 selector *LabelSelector
  5 manualSelector *bool
  6 template PodTemplateSpec !
  7 backoffLimit *int32
  8 ttlSecondsAfterFinished *int32
  9 completionMode *string
  10 suspend *bool
  11 podFailurePolicy *PodFailurePolicy
  12 backoffLimitPerIndex *int32
  13 maxFailedIndexes *int32
  14 podReplacementPolicy *string
  15 managedBy *string
  16 successPolicy *SuccessPolicy
JobStatus
  1 conditions []JobCondition merge=type
  2 startTime *time
  3 completionTime *time
  4 active int32
  5 succeeded int32
  6 failed int32
  7 completedIndexes string
  8 uncountedTerminatedPods *UncountedTerminatedPods
  9 ready *int32
  10 failedIndexes *string
  11 terminating *int32
JobTemplateSpec
  1 metadata ObjectMeta
  2 spec JobSpec
PodFailurePolicy
  1 rules []PodFailurePolicyRule ! +
PodFailurePolicyOnExitCodesRequirement
  1 containerName *string
  2 operator string ! +
  3 values []int32 ! set +
PodFailurePolicyOnPodConditionsPattern
  1 type string ! +
  2 status string +
PodFailurePolicyRule
  1 action string ! +
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
Scale
  1 metadata ObjectMeta
  2 spec ScaleSpec
  3 status ScaleStatus
ScaleSpec
  1 replicas int32
ScaleStatus
  1 replicas int32 ! +
  2 selector string
package io.k8s.api.policy.v1
Eviction
  1 metadata ObjectMeta
  2 deleteOptions *DeleteOptions
"""
