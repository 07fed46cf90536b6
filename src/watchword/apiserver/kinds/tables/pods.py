"""Pods: how they are placed and what they report, as one table of fields."""

TABLE = """\
package io.k8s.api.core.v1
Affinity
  1 nodeAffinity *NodeAffinity
  2 podAffinity *PodAffinity
  3 podAntiAffinity *PodAntiAffinity
ContainerExtendedResourceRequest
  1 containerName string ! +
  2 resourceName string ! +
  3 requestName string ! +
ContainerState
  1 waiting *ContainerStateWaiting
  2 running *ContainerStateRunning
  3 terminated *ContainerStateTerminated
ContainerStateRunning
  1 startedAt time
ContainerStateTerminated
  1 exitCode int32 ! +
  2 signal int32
  3 reason string
  4 message string
  5 startedAt time
  6 finishedAt time
  7 containerID string
ContainerStateWaiting
  1 reason string
  2 message string
ContainerStatus
  1 name string ! +
  2 state ContainerState
  3 lastState ContainerState
  4 ready bool ! +
  5 restartCount int32 ! +
  6 image string ! +
  7 imageID string ! +
  8 containerID string
  9 started *bool
  10 allocatedResources {}quantity
  11 resources *ResourceRequirements
  12 volumeMounts []VolumeMountStatus map=mountPath merge=mountPath
  13 user *ContainerUser
  14 allocatedResourcesStatus []ResourceStatus map=name merge=name
  15 stopSignal *string
ContainerUser
  1 linux *LinuxContainerUser
HostAlias
  1 ip string ! +
  2 hostnames []string
HostIP
  1 ip string ! +
LinuxContainerUser
  1 uid int64 ! +
  2 gid int64 ! +
  3 supplementalGroups []int64
NodeAffinity
  1 requiredDuringSchedulingIgnoredDuringExecution *NodeSelector
  2 preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm
NodeSelector atomic
  1 nodeSelectorTerms []NodeSelectorTerm ! +
NodeSelectorRequirement
  1 key string ! +
  2 operator string ! +
  3 values []string
NodeSelectorTerm atomic
  1 matchExpressions []NodeSelectorRequirement
  2 matchFields []NodeSelectorRequirement
Pod
  1 metadata ObjectMeta
  2 spec PodSpec
  3 status PodStatus
PodAffinity
  1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm
  2 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm
PodAffinityTerm
  1 labelSelector *LabelSelector
  2 namespaces []string
  3 topologyKey string ! +
  4 namespaceSelector *LabelSelector
  5 matchLabelKeys []string
  6 mismatchLabelKeys []string
PodAntiAffinity
  1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm
  2 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm
PodCondition
  1 type string ! +
  2 status string ! +
  3 lastProbeTime time
  4 lastTransitionTime time
  5 reason string
  6 message string
  7 observedGeneration int64
PodDNSConfig
  1 nameservers []string
  2 searches []string
  3 options []PodDNSConfigOption
PodDNSConfigOption
  1 name string
  2 value *string
PodExtendedResourceClaimStatus
  1 requestMappings []ContainerExtendedResourceRequest ! +
  2 resourceClaimName string ! +
PodIP
  1 ip string ! +
PodOS
  1 name string ! +
PodReadinessGate
  1 conditionType string ! +
PodResourceClaim
  1 name string ! +
  3 resourceClaimName *string
  4 resourceClaimTemplateName *string
PodResourceClaimStatus
  1 name string ! +
  2 resourceClaimName *string
PodSchedulingGate
  1 name string ! +
PodSecurityContext
  1 seLinuxOptions *SELinuxOptions
  2 runAsUser *int64
  3 runAsNonRoot *bool
  4 supplementalGroups []int64
  5 fsGroup *int64
  6 runAsGroup *int64
  7 sysctls []Sysctl
  8 windowsOptions *WindowsSecurityContextOptions
  9 fsGroupChangePolicy *string
  10 seccompProfile *SeccompProfile
  11 appArmorProfile *AppArmorProfile
  12 supplementalGroupsPolicy *string
  13 seLinuxChangePolicy *string
PodSpec
  1 volumes []Volume map=name merge+retainKeys=name
  2 containers []Container ! map=name merge=name +
  3 restartPolicy string
  4 terminationGracePeriodSeconds *int64
  5 activeDeadlineSeconds *int64
  6 dnsPolicy string
  7 nodeSelector {}string atomic
  8 serviceAccountName string
  9 serviceAccount string
  10 nodeName string
  11 hostNetwork bool
  12 hostPID bool
  13 hostIPC bool
  14 securityContext *PodSecurityContext
  15 imagePullSecrets []LocalObjectReference map=name merge=name
  16 hostname string
  17 subdomain string
  18 affinity *Affinity
  19 schedulerName string
  20 initContainers []Container map=name merge=name
  21 automountServiceAccountToken *bool
  22 tolerations []Toleration
  23 hostAliases []HostAlias map=ip merge=ip
  24 priorityClassName string
  25 priority *int32
  26 dnsConfig *PodDNSConfig
  27 shareProcessNamespace *bool
  28 readinessGates []PodReadinessGate
  29 runtimeClassName *string
  30 enableServiceLinks *bool
  31 preemptionPolicy *string
  32 overhead {}quantity
  33 topologySpreadConstraints []TopologySpreadConstraint map=topologyKey,whenUnsatisfiable merge=topologyKey
  34 ephemeralContainers []EphemeralContainer map=name merge=name
  35 setHostnameAsFQDN *bool
  36 os *PodOS
  37 hostUsers *bool
  38 schedulingGates []PodSchedulingGate map=name merge=name
  39 resourceClaims []PodResourceClaim map=name merge+retainKeys=name
  40 resources *ResourceRequirements
  41 hostnameOverride *string
  42 workloadRef *WorkloadReference
PodStatus
  1 phase string
  2 conditions []PodCondition map=type merge=type
  3 message string
  4 reason string
  5 hostIP string
  6 podIP string
  7 startTime *time
  8 containerStatuses []ContainerStatus
  9 qosClass string
  10 initContainerStatuses []ContainerStatus
  11 nominatedNodeName string
  12 podIPs []PodIP map=ip merge=ip
  13 ephemeralContainerStatuses []ContainerStatus
  14 resize string
  15 resourceClaimStatuses []PodResourceClaimStatus map=name merge+retainKeys=name
  16 hostIPs []HostIP merge=ip
  17 observedGeneration int64
  18 extendedResourceClaimStatus *PodExtendedResourceClaimStatus
  19 allocatedResources {}quantity
  20 resources *ResourceRequirements
PodTemplateSpec
  1 metadata ObjectMeta
  2 spec PodSpec
PreferredSchedulingTerm
  1 weight int32 ! +
  2 preference NodeSelectorTerm !
ResourceHealth
  1 resourceID string ! +
  2 health string
ResourceStatus
  1 name string ! +
  2 resources []ResourceHealth map=resourceID
Sysctl
  1 name string ! +
  2 value string ! +
Toleration
  1 key string
  2 operator string
  3 value string
  4 effect string
  5 tolerationSeconds *int64
TopologySpreadConstraint
  1 maxSkew int32 ! +
  2 topologyKey string ! +
  3 whenUnsatisfiable string ! +
  4 labelSelector *LabelSelector
  5 minDomains *int32
  6 nodeAffinityPolicy *string
  7 nodeTaintsPolicy *string
  8 matchLabelKeys []string
VolumeMountStatus
  1 name string ! +
  2 mountPath string ! +
  3 readOnly bool
  4 recursiveReadOnly *string
WeightedPodAffinityTerm
  1 weight int32 ! +
  2 podAffinityTerm PodAffinityTerm !
WorkloadReference
  1 name string ! +
  2 podGroup string ! +
  3 podGroupReplicaKey string
"""
