"""Namespaces, secrets, accounts, services, nodes and events of the core group, as one table of fields."""

TABLE = """\
package io.k8s.api.core.v1
AttachedVolume
  1 name string ! +
  2 devicePath string ! +
Binding
  1 metadata ObjectMeta
  2 target ObjectReference !
ClientIPConfig
  1 timeoutSeconds *int32
ConfigMap
  1 metadata ObjectMeta
  2 data {}string
  3 binaryData {}bytes
  4 immutable *bool
ConfigMapNodeConfigSource
  1 namespace string ! +
  2 name string ! +
  3 uid string
  4 resourceVersion string
  5 kubeletConfigKey string ! +
ContainerImage
  1 names []string +
  2 sizeBytes int64
DaemonEndpoint
  1 Port int32 ! +
EndpointAddress atomic
  1 ip string ! +
  2 targetRef *ObjectReference
  3 hostname string
  4 nodeName *string
EndpointPort atomic
  1 name string
  2 port int32 ! +
  3 protocol string
  4 appProtocol *string
EndpointSubset
  1 addresses []EndpointAddress
  2 notReadyAddresses []EndpointAddress
  3 ports []EndpointPort
Endpoints
  1 metadata ObjectMeta
  2 subsets []EndpointSubset
Event
  1 metadata ObjectMeta !
  2 involvedObject ObjectReference !
  3 reason string
  4 message string
  5 source EventSource
  6 firstTimestamp time
  7 lastTimestamp time
  8 count int32
  9 type string
  10 eventTime microtime
  11 series *EventSeries
  12 action string
  13 related *ObjectReference
  14 reportingComponent string +
  15 reportingInstance string +
EventSeries
  1 count int32
  2 lastObservedTime microtime
EventSource
  1 component string
  2 host string
LoadBalancerIngress
  1 ip string
  2 hostname string
  3 ipMode *string
  4 ports []PortStatus
LoadBalancerStatus
  1 ingress []LoadBalancerIngress
LocalObjectReference atomic
  1 name string
Namespace
  1 metadata ObjectMeta
  2 spec NamespaceSpec
  3 status NamespaceStatus
NamespaceCondition
  1 type string ! +
  2 status string ! +
  4 lastTransitionTime time
  5 reason string
  6 message string
NamespaceSpec
  1 finalizers []string
NamespaceStatus
  1 phase string
  2 conditions []NamespaceCondition map=type merge=type
Node
  1 metadata ObjectMeta
  2 spec NodeSpec
  3 status NodeStatus
NodeAddress
  1 type string ! +
  2 address string ! +
NodeCondition
  1 type string ! +
  2 status string ! +
  3 lastHeartbeatTime time
  4 lastTransitionTime time
  5 reason string
  6 message string
NodeConfigSource
  2 configMap *ConfigMapNodeConfigSource
NodeConfigStatus
  1 assigned *NodeConfigSource
  2 active *NodeConfigSource
  3 lastKnownGood *NodeConfigSource
  4 error string
NodeDaemonEndpoints
  1 kubeletEndpoint DaemonEndpoint
NodeFeatures
  1 supplementalGroupsPolicy *bool
NodeRuntimeHandler
  1 name string +
  2 features *NodeRuntimeHandlerFeatures
NodeRuntimeHandlerFeatures
  1 recursiveReadOnlyMounts *bool
  2 userNamespaces *bool
NodeSpec
  1 podCIDR string
  2 externalID string
  3 providerID string
  4 unschedulable bool
  5 taints []Taint
  6 configSource *NodeConfigSource
  7 podCIDRs []string set merge
NodeStatus
  1 capacity {}quantity
  2 allocatable {}quantity
  3 phase string
  4 conditions []NodeCondition map=type merge=type
  5 addresses []NodeAddress map=type merge=type
  6 daemonEndpoints NodeDaemonEndpoints
  7 nodeInfo NodeSystemInfo
  8 images []ContainerImage
  9 volumesInUse []string
  10 volumesAttached []AttachedVolume
  11 config *NodeConfigStatus
  12 runtimeHandlers []NodeRuntimeHandler
  13 features *NodeFeatures
  14 declaredFeatures []string
NodeSwapStatus
  1 capacity *int64
NodeSystemInfo
  1 machineID string ! +
  2 systemUUID string ! +
  3 bootID string ! +
  4 kernelVersion string ! +
  5 osImage string ! +
  6 containerRuntimeVersion string ! +
  7 kubeletVersion string ! +
  8 kubeProxyVersion string ! +
  9 operatingSystem string ! +
  10 architecture string ! +
  11 swap *NodeSwapStatus
ObjectFieldSelector atomic
  1 apiVersion string
  2 fieldPath string ! +
ObjectReference atomic
  1 kind string
  2 namespace string
  3 name string
  4 uid string
  5 apiVersion string
  6 resourceVersion string
  7 fieldPath string
PortStatus
  1 port int32 ! +
  2 protocol string ! +
  3 error *string
ResourceClaim
  1 name string ! +
  2 request string
ResourceFieldSelector atomic
  1 containerName string
  2 resource string ! +
  3 divisor quantity
ResourceRequirements
  1 limits {}quantity
  2 requests {}quantity
  3 claims []ResourceClaim map=name
Secret
  1 metadata ObjectMeta
  2 data {}bytes
  3 type string
  4 stringData {}string
  5 immutable *bool
Service
  1 metadata ObjectMeta
  2 spec ServiceSpec
  3 status ServiceStatus
ServiceAccount
  1 metadata ObjectMeta
  2 secrets []ObjectReference map=name merge=name
  3 imagePullSecrets []LocalObjectReference
  4 automountServiceAccountToken *bool
ServicePort
  1 name string
  2 protocol string
  3 port int32 ! +
  4 targetPort intstr
  5 nodePort int32
  6 appProtocol *string
ServiceSpec
  1 ports []ServicePort map=port,protocol merge=port
  2 selector {}string atomic
  3 clusterIP string
  4 type string
  5 externalIPs []string
  7 sessionAffinity string
  8 loadBalancerIP string
  9 loadBalancerSourceRanges []string
  10 externalName string
  11 externalTrafficPolicy string
  12 healthCheckNodePort int32
  13 publishNotReadyAddresses bool
  14 sessionAffinityConfig *SessionAffinityConfig
  17 ipFamilyPolicy *string
  18 clusterIPs []string
  19 ipFamilies []string
  20 allocateLoadBalancerNodePorts *bool
  21 loadBalancerClass *string
  22 internalTrafficPolicy *string
  23 trafficDistribution *string
ServiceStatus
  1 loadBalancer LoadBalancerStatus
  2 conditions []Condition map=type merge=type
SessionAffinityConfig
  1 clientIP *ClientIPConfig
Taint
  1 key string ! +
  2 value string
  3 effect string ! +
  4 timeAdded *time
"""
