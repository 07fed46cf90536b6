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
  1 waiting *ContainerStateWaiting ; why it does not run yet
  2 running *ContainerStateRunning ; since when it runs
  3 terminated *ContainerStateTerminated ; how it ended
ContainerStateRunning
  1 startedAt time ; when it started
ContainerStateTerminated
  1 exitCode int32 ! + ; code it ended with
  2 signal int32 ; signal that ended it
  3 reason string ; one word for machines
  4 message string ; details for people
  5 startedAt time ; when it started
  6 finishedAt time ; when it ended
  7 containerID string ; identity of the container on its node
ContainerStateWaiting
  1 reason string ; one word for machines
  2 message string ; details for people
ContainerStatus
  1 name string ! +
  2 state ContainerState ; what it is doing
  3 lastState ContainerState ; what it did before
  4 ready bool ! + ; whether it serves
  5 restartCount int32 ! + ; how often it was started again
  6 image string ! + ; name of the image
  7 imageID string ! + ; exact image that runs
  8 containerID string ; identity of the container on its node
  9 started *bool ; whether it has passed its start
  10 allocatedResources {}quantity ; resources reserved for it
  11 resources *ResourceRequirements
  12 volumeMounts []VolumeMountStatus map=mountPath merge=mountPath ; volumes and where they appear
  13 user *ContainerUser ; name of the user
  14 allocatedResourcesStatus []ResourceStatus map=name merge=name
  15 stopSignal *string
ContainerUser
  1 linux *LinuxContainerUser
HostAlias
  1 ip string ! + ; IP address
  2 hostnames []string
HostIP
  1 ip string ! + ; IP address
LinuxContainerUser
  1 uid int64 ! + ; identity that no other object ever has
  2 gid int64 ! +
  3 supplementalGroups []int64 ; further groups of the process
NodeAffinity
  1 requiredDuringSchedulingIgnoredDuringExecution *NodeSelector ; demands that placement must meet
  2 preferredDuringSchedulingIgnoredDuringExecution []PreferredSchedulingTerm ; wishes, weighed against each other
NodeSelector atomic
  1 nodeSelectorTerms []NodeSelectorTerm ! +
NodeSelectorRequirement
  1 key string ! +
  2 operator string ! + ; how key and values are compared
  3 values []string ; what the key is compared with
NodeSelectorTerm atomic
  1 matchExpressions []NodeSelectorRequirement ; conditions on labels
  2 matchFields []NodeSelectorRequirement
Pod ; containers that run together on one node
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec PodSpec ; what is wanted
  3 status PodStatus ; what is observed, written by the control plane
PodAffinity
  1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm ; demands that placement must meet
  2 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm ; wishes, weighed against each other
PodAffinityTerm
  1 labelSelector *LabelSelector ; only objects with these labels
  2 namespaces []string
  3 topologyKey string ! + ; node label that draws the groups
  4 namespaceSelector *LabelSelector ; only namespaces with these labels
  5 matchLabelKeys []string ; label keys whose values are taken from the pod
  6 mismatchLabelKeys []string
PodAntiAffinity
  1 requiredDuringSchedulingIgnoredDuringExecution []PodAffinityTerm ; demands that placement must meet
  2 preferredDuringSchedulingIgnoredDuringExecution []WeightedPodAffinityTerm ; wishes, weighed against each other
PodCondition
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  3 lastProbeTime time ; when it was last looked at
  4 lastTransitionTime time ; when the status last changed
  5 reason string ; one word for machines
  6 message string ; details for people
  7 observedGeneration int64 ; the generation this status answers to
PodDNSConfig
  1 nameservers []string
  2 searches []string
  3 options []PodDNSConfigOption
PodDNSConfigOption
  1 name string
  2 value *string
PodExtendedResourceClaimStatus
  1 requestMappings []ContainerExtendedResourceRequest ! +
  2 resourceClaimName string ! + ; name of the claim
PodIP
  1 ip string ! + ; IP address
PodOS
  1 name string ! +
PodReadinessGate
  1 conditionType string ! +
PodResourceClaim
  1 name string ! +
  3 resourceClaimName *string ; name of the claim
  4 resourceClaimTemplateName *string
PodResourceClaimStatus
  1 name string ! +
  2 resourceClaimName *string ; name of the claim
PodSchedulingGate
  1 name string ! +
PodSecurityContext
  1 seLinuxOptions *SELinuxOptions ; SELinux labels
  2 runAsUser *int64 ; user number the process runs as
  3 runAsNonRoot *bool ; refuse to run as root
  4 supplementalGroups []int64 ; further groups of the process
  5 fsGroup *int64 ; group that owns volumes
  6 runAsGroup *int64 ; group number the process runs as
  7 sysctls []Sysctl ; kernel parameters
  8 windowsOptions *WindowsSecurityContextOptions ; settings on Windows
  9 fsGroupChangePolicy *string
  10 seccompProfile *SeccompProfile ; system calls that are allowed
  11 appArmorProfile *AppArmorProfile ; AppArmor confinement
  12 supplementalGroupsPolicy *string
  13 seLinuxChangePolicy *string
PodSpec ; what a pod runs and how
  1 volumes []Volume map=name merge+retainKeys=name ; what containers can mount
  2 containers []Container ! map=name merge=name + ; what the pod runs
  3 restartPolicy string ; Always, OnFailure or Never
  4 terminationGracePeriodSeconds *int64 ; time containers get to stop
  5 activeDeadlineSeconds *int64 ; longest time it may run
  6 dnsPolicy string ; how names are looked up
  7 nodeSelector {}string atomic ; labels the node must have
  8 serviceAccountName string ; account the pod acts as
  9 serviceAccount string ; older form of serviceAccountName
  10 nodeName string ; node it is placed on
  11 hostNetwork bool ; whether it shares the node's network
  12 hostPID bool ; whether it sees the node's processes
  13 hostIPC bool ; whether it shares the node's memory segments
  14 securityContext *PodSecurityContext ; privileges and identity
  15 imagePullSecrets []LocalObjectReference map=name merge=name ; secrets for pulling images
  16 hostname string ; name of the pod's host
  17 subdomain string ; domain below the cluster's
  18 affinity *Affinity ; where the pod likes to be
  19 schedulerName string ; who places the pod
  20 initContainers []Container map=name merge=name ; run one after the other before the others start
  21 automountServiceAccountToken *bool ; whether pods get the account's token
  22 tolerations []Toleration ; taints that do not keep it away
  23 hostAliases []HostAlias map=ip merge=ip ; further lines of the hosts file
  24 priorityClassName string ; class that gives the priority
  25 priority *int32 ; the higher, the earlier it is placed
  26 dnsConfig *PodDNSConfig ; servers and search domains
  27 shareProcessNamespace *bool ; whether containers see each other's processes
  28 readinessGates []PodReadinessGate ; further conditions of readiness
  29 runtimeClassName *string ; how its containers are run
  30 enableServiceLinks *bool ; whether services appear in the environment
  31 preemptionPolicy *string ; whether it may push others out
  32 overhead {}quantity ; resources the pod itself costs
  33 topologySpreadConstraints []TopologySpreadConstraint map=topologyKey,whenUnsatisfiable merge=topologyKey
  34 ephemeralContainers []EphemeralContainer map=name merge=name ; added to a running pod for looking inside
  35 setHostnameAsFQDN *bool
  36 os *PodOS
  37 hostUsers *bool ; whether users are those of the node
  38 schedulingGates []PodSchedulingGate map=name merge=name ; hold back placement until removed
  39 resourceClaims []PodResourceClaim map=name merge+retainKeys=name ; devices that are claimed
  40 resources *ResourceRequirements
  41 hostnameOverride *string
  42 workloadRef *WorkloadReference
PodStatus
  1 phase string ; Pending, Running, Succeeded, Failed or Unknown
  2 conditions []PodCondition map=type merge=type ; what is currently true of the object
  3 message string ; details for people
  4 reason string ; one word for machines
  5 hostIP string ; address of its node
  6 podIP string ; address of the pod
  7 startTime *time ; when it started
  8 containerStatuses []ContainerStatus ; state of each container
  9 qosClass string ; Guaranteed, Burstable or BestEffort
  10 initContainerStatuses []ContainerStatus ; state of each init container
  11 nominatedNodeName string ; node that is being freed for it
  12 podIPs []PodIP map=ip merge=ip ; one address for each IP family
  13 ephemeralContainerStatuses []ContainerStatus
  14 resize string
  15 resourceClaimStatuses []PodResourceClaimStatus map=name merge+retainKeys=name
  16 hostIPs []HostIP merge=ip
  17 observedGeneration int64 ; the generation this status answers to
  18 extendedResourceClaimStatus *PodExtendedResourceClaimStatus
  19 allocatedResources {}quantity ; resources reserved for it
  20 resources *ResourceRequirements
PodTemplateSpec ; how pods of a workload look
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec PodSpec ; what the pods run
PreferredSchedulingTerm
  1 weight int32 ! + ; how much it counts, from 1 to 100
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
Toleration ; a taint that is put up with
  1 key string ; taint that is tolerated; empty for all
  2 operator string ; how key and values are compared
  3 value string ; value of the taint
  4 effect string ; effect that is tolerated; empty for all
  5 tolerationSeconds *int64 ; how long NoExecute is tolerated
TopologySpreadConstraint
  1 maxSkew int32 ! +
  2 topologyKey string ! + ; node label that draws the groups
  3 whenUnsatisfiable string ! +
  4 labelSelector *LabelSelector ; only objects with these labels
  5 minDomains *int32
  6 nodeAffinityPolicy *string
  7 nodeTaintsPolicy *string
  8 matchLabelKeys []string ; label keys whose values are taken from the pod
VolumeMountStatus
  1 name string ! +
  2 mountPath string ! +
  3 readOnly bool ; whether writing is forbidden
  4 recursiveReadOnly *string
WeightedPodAffinityTerm
  1 weight int32 ! + ; how much it counts, from 1 to 100
  2 podAffinityTerm PodAffinityTerm !
WorkloadReference
  1 name string ! +
  2 podGroup string ! +
  3 podGroupReplicaKey string
"""
