"""Namespaces, secrets, accounts, services, nodes and events of the core group, as one table of fields."""

TABLE = """\
package io.k8s.api.core.v1
AttachedVolume
  1 name string ! +
  2 devicePath string ! + ; path of the device
Binding ; the placing of a pod on a node
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 target ObjectReference ! ; node the pod is placed on
ClientIPConfig
  1 timeoutSeconds *int32
ConfigMap ; configuration that is not confidential
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 data {}string ; values by key, UTF-8 text
  3 binaryData {}bytes ; values by key, base64 in JSON
  4 immutable *bool ; whether data may never change again
ConfigMapNodeConfigSource
  1 namespace string ! + ; namespace of what is named
  2 name string ! +
  3 uid string ; identity that no other object ever has
  4 resourceVersion string ; revision of the object
  5 kubeletConfigKey string ! +
ContainerImage
  1 names []string +
  2 sizeBytes int64
DaemonEndpoint
  1 Port int32 ! +
EndpointAddress atomic
  1 ip string ! + ; IP address
  2 targetRef *ObjectReference ; pod behind the address
  3 hostname string ; name of the host
  4 nodeName *string ; node it is placed on
EndpointPort atomic
  1 name string
  2 port int32 ! + ; port number
  3 protocol string ; TCP, UDP or SCTP
  4 appProtocol *string ; protocol spoken above the transport
EndpointSubset
  1 addresses []EndpointAddress ; addresses that are ready
  2 notReadyAddresses []EndpointAddress ; addresses that are not ready yet
  3 ports []EndpointPort ; ports of these addresses
Endpoints ; addresses behind a service
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 subsets []EndpointSubset ; addresses and ports behind a service
Event ; something that happened to an object
  1 metadata ObjectMeta ! ; identity, labels and bookkeeping of the object
  2 involvedObject ObjectReference ! ; object the event is about
  3 reason string ; one word for machines
  4 message string ; details for people
  5 source EventSource ; who reported it, in the older form
  6 firstTimestamp time ; when it was first seen
  7 lastTimestamp time ; when it was last seen
  8 count int32 ; how often it was seen
  9 type string ; Normal or Warning
  10 eventTime microtime ; when it was first observed
  11 series *EventSeries ; how often and until when it was repeated
  12 action string ; what was done
  13 related *ObjectReference ; a second object it concerns
  14 reportingComponent string + ; controller that reported it
  15 reportingInstance string + ; which instance of the reporter
EventSeries
  1 count int32 ; observations so far
  2 lastObservedTime microtime ; the latest observation
EventSource
  1 component string ; program that reports
  2 host string ; node it reports from
LoadBalancerIngress
  1 ip string ; IP address
  2 hostname string ; name of the host
  3 ipMode *string
  4 ports []PortStatus ; ports that are listened on
LoadBalancerStatus
  1 ingress []LoadBalancerIngress
LocalObjectReference atomic ; names an object in the same namespace
  1 name string
Namespace ; a scope for names
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec NamespaceSpec ; finalizers that keep the namespace
  3 status NamespaceStatus ; what is observed, written by the control plane
NamespaceCondition
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  4 lastTransitionTime time ; when the status last changed
  5 reason string ; one word for machines
  6 message string ; details for people
NamespaceSpec
  1 finalizers []string ; must be emptied before the namespace goes
NamespaceStatus
  1 phase string ; Active or Terminating
  2 conditions []NamespaceCondition map=type merge=type ; what is currently true of the object
Node ; a machine that runs pods
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec NodeSpec ; what is wanted
  3 status NodeStatus ; what is observed, written by the control plane
NodeAddress
  1 type string ! +
  2 address string ! +
NodeCondition
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  3 lastHeartbeatTime time
  4 lastTransitionTime time ; when the status last changed
  5 reason string ; one word for machines
  6 message string ; details for people
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
  1 podCIDR string ; addresses for pods of the node
  2 externalID string
  3 providerID string ; the machine as its provider names it
  4 unschedulable bool ; whether new pods are kept away
  5 taints []Taint ; what keeps pods away that do not tolerate it
  6 configSource *NodeConfigSource
  7 podCIDRs []string set merge ; the same, for each IP family
NodeStatus
  1 capacity {}quantity ; all there is
  2 allocatable {}quantity ; what is left for pods
  3 phase string ; where in its life it is
  4 conditions []NodeCondition map=type merge=type ; what is currently true of the object
  5 addresses []NodeAddress map=type merge=type ; how the node is reached
  6 daemonEndpoints NodeDaemonEndpoints
  7 nodeInfo NodeSystemInfo ; versions and identities of the machine
  8 images []ContainerImage ; images on the node
  9 volumesInUse []string
  10 volumesAttached []AttachedVolume
  11 config *NodeConfigStatus
  12 runtimeHandlers []NodeRuntimeHandler
  13 features *NodeFeatures
  14 declaredFeatures []string
NodeSwapStatus
  1 capacity *int64 ; all there is
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
  1 apiVersion string ; group and version of the kind
  2 fieldPath string ! + ; field of the pod
ObjectReference atomic ; names one object
  1 kind string ; kind of what is named
  2 namespace string ; namespace of what is named
  3 name string
  4 uid string ; identity that no other object ever has
  5 apiVersion string ; group and version of the kind
  6 resourceVersion string ; revision of the object
  7 fieldPath string ; path of one field
PortStatus
  1 port int32 ! +
  2 protocol string ! + ; TCP, UDP or SCTP
  3 error *string
ResourceClaim
  1 name string ! +
  2 request string
ResourceFieldSelector atomic
  1 containerName string
  2 resource string ! +
  3 divisor quantity
ResourceRequirements ; what a container needs and may use
  1 limits {}quantity ; most that may be used
  2 requests {}quantity ; least that must be available
  3 claims []ResourceClaim map=name ; claimed devices the container uses
Secret ; small confidential data
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 data {}bytes ; values by key, base64 in JSON
  3 type string ; what kind of content to expect
  4 stringData {}string ; values by key as plain text; written only, never shown
  5 immutable *bool ; whether data may never change again
Service ; a stable name and address for a set of pods
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec ServiceSpec ; what is wanted
  3 status ServiceStatus ; what is observed, written by the control plane
ServiceAccount ; an identity for processes
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 secrets []ObjectReference map=name merge=name ; secrets that belong to the account
  3 imagePullSecrets []LocalObjectReference ; secrets for pulling images
  4 automountServiceAccountToken *bool ; whether pods get the account's token
ServicePort
  1 name string ; name, needed when there are several
  2 protocol string ; TCP, UDP or SCTP
  3 port int32 ! + ; port of the service
  4 targetPort intstr ; port of the pods, by number or name
  5 nodePort int32 ; port on every node
  6 appProtocol *string ; protocol spoken above the transport
ServiceSpec
  1 ports []ServicePort map=port,protocol merge=port ; ports the service offers
  2 selector {}string atomic ; pods that traffic goes to
  3 clusterIP string ; address inside the cluster; None for no address
  4 type string ; ClusterIP, NodePort, LoadBalancer or ExternalName
  5 externalIPs []string ; further addresses that nodes accept
  7 sessionAffinity string ; ClientIP keeps a client with one pod
  8 loadBalancerIP string
  9 loadBalancerSourceRanges []string ; clients the load balancer admits
  10 externalName string ; DNS name that is answered with
  11 externalTrafficPolicy string ; whether traffic from outside may change nodes
  12 healthCheckNodePort int32 ; port for health checks of nodes
  13 publishNotReadyAddresses bool ; whether pods that are not ready are listed
  14 sessionAffinityConfig *SessionAffinityConfig ; how long clients are kept
  17 ipFamilyPolicy *string ; one family or two
  18 clusterIPs []string ; one address for each IP family
  19 ipFamilies []string ; IPv4, IPv6 or both
  20 allocateLoadBalancerNodePorts *bool ; whether a load balancer needs node ports
  21 loadBalancerClass *string ; which load balancer takes care
  22 internalTrafficPolicy *string ; whether traffic from inside may change nodes
  23 trafficDistribution *string ; where traffic should preferably go
ServiceStatus
  1 loadBalancer LoadBalancerStatus ; addresses of the load balancer
  2 conditions []Condition map=type merge=type ; what is currently true of the object
SessionAffinityConfig
  1 clientIP *ClientIPConfig
Taint ; keeps pods away that do not tolerate it
  1 key string ! + ; name of the taint
  2 value string ; value of the taint
  3 effect string ! + ; NoSchedule, PreferNoSchedule or NoExecute
  4 timeAdded *time ; when it was set
"""
