"""Containers: what a pod runs, as one table of fields."""

TABLE = """\
package io.k8s.api.core.v1
AppArmorProfile
  1 type string ! +
  2 localhostProfile *string ; file of the profile on the node
Capabilities
  1 add []string
  2 drop []string
ConfigMapEnvSource
  1 - LocalObjectReference
  2 optional *bool ; whether absence is tolerated
ConfigMapKeySelector atomic
  1 - LocalObjectReference
  2 key string ! +
  3 optional *bool ; whether absence is tolerated
Container ; one program in a pod
  1 name string ! + ; unique within the pod
  2 image string ; name of the image
  3 command []string ; program and first arguments, instead of the image's
  4 args []string ; arguments, instead of the image's
  5 workingDir string ; directory the program starts in
  6 ports []ContainerPort map=containerPort,protocol merge=containerPort ; ports that are listened on
  7 env []EnvVar map=name merge=name ; environment variables
  8 resources ResourceRequirements ; what it needs and may use
  9 volumeMounts []VolumeMount map=mountPath merge=mountPath ; volumes and where they appear
  10 livenessProbe *Probe ; restarts the container when it fails
  11 readinessProbe *Probe ; takes the container out of service while it fails
  12 lifecycle *Lifecycle ; what runs after start and before stop
  13 terminationMessagePath string ; file whose content becomes the last message
  14 imagePullPolicy string ; when the image is fetched: Always, IfNotPresent or Never
  15 securityContext *SecurityContext ; privileges and identity
  16 stdin bool ; whether input is kept open
  17 stdinOnce bool ; whether input closes after the first session
  18 tty bool ; whether a terminal is attached
  19 envFrom []EnvFromSource ; sources that each give many variables
  20 terminationMessagePolicy string ; where the last message comes from
  21 volumeDevices []VolumeDevice map=devicePath merge=devicePath ; block devices and where they appear
  22 startupProbe *Probe ; holds back the other probes until it succeeds
  23 resizePolicy []ContainerResizePolicy ; what a change of resources does
  24 restartPolicy *string ; what happens when it ends
  25 restartPolicyRules []ContainerRestartRule ; exceptions from the restart policy
ContainerPort
  1 name string ; name that services can refer to
  2 hostPort int32 ; port on the node
  3 containerPort int32 ! + ; port inside the pod
  4 protocol string ; TCP, UDP or SCTP
  5 hostIP string ; address on the node
ContainerResizePolicy
  1 resourceName string ! +
  2 restartPolicy string ! + ; what happens when it ends
ContainerRestartRule
  1 action string ! ; what a match leads to
  2 exitCodes *ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes
  1 operator string ! ; how key and values are compared
  2 values []int32 set ; what the key is compared with
EnvFromSource
  1 prefix string ; put before each key
  2 configMapRef *ConfigMapEnvSource ; every key of a ConfigMap
  3 secretRef *SecretEnvSource ; every key of a Secret
EnvVar ; one environment variable
  1 name string ! + ; name of the variable
  2 value string ; its value; $(NAME) refers to others
  3 valueFrom *EnvVarSource ; where the value comes from
EnvVarSource
  1 fieldRef *ObjectFieldSelector ; a field of the pod
  2 resourceFieldRef *ResourceFieldSelector ; a resource of a container
  3 configMapKeyRef *ConfigMapKeySelector ; a key of a ConfigMap
  4 secretKeyRef *SecretKeySelector ; a key of a Secret
  5 fileKeyRef *FileKeySelector
EphemeralContainer
  1 - EphemeralContainerCommon
  2 targetContainerName string
EphemeralContainerCommon
  1 name string ! +
  2 image string ; name of the image
  3 command []string ; program and first arguments, instead of the image's
  4 args []string ; arguments, instead of the image's
  5 workingDir string ; directory the program starts in
  6 ports []ContainerPort map=containerPort,protocol merge=containerPort ; ports that are listened on
  7 env []EnvVar map=name merge=name ; environment variables
  8 resources ResourceRequirements ; what it needs and may use
  9 volumeMounts []VolumeMount map=mountPath merge=mountPath ; volumes and where they appear
  10 livenessProbe *Probe ; restarts the container when it fails
  11 readinessProbe *Probe ; takes the container out of service while it fails
  12 lifecycle *Lifecycle ; what runs after start and before stop
  13 terminationMessagePath string ; file whose content becomes the last message
  14 imagePullPolicy string ; when the image is fetched: Always, IfNotPresent or Never
  15 securityContext *SecurityContext ; privileges and identity
  16 stdin bool ; whether input is kept open
  17 stdinOnce bool ; whether input closes after the first session
  18 tty bool ; whether a terminal is attached
  19 envFrom []EnvFromSource ; sources that each give many variables
  20 terminationMessagePolicy string ; where the last message comes from
  21 volumeDevices []VolumeDevice map=devicePath merge=devicePath ; block devices and where they appear
  22 startupProbe *Probe ; holds back the other probes until it succeeds
  23 resizePolicy []ContainerResizePolicy ; what a change of resources does
  24 restartPolicy *string ; what happens when it ends
  25 restartPolicyRules []ContainerRestartRule ; exceptions from the restart policy
ExecAction
  1 command []string ; program and first arguments, instead of the image's
FileKeySelector atomic
  1 volumeName string ! + ; name of the volume
  2 path string ! +
  3 key string ! +
  4 optional *bool ; whether absence is tolerated
GRPCAction
  1 port int32 ! +
  2 service *string +
HTTPGetAction
  1 path string ; path that is asked for
  2 port intstr ! ; port, by number or name
  3 host string ; host, when not the pod
  4 scheme string ; HTTP or HTTPS
  5 httpHeaders []HTTPHeader ; further headers
HTTPHeader
  1 name string ! +
  2 value string ! +
Lifecycle
  1 postStart *LifecycleHandler
  2 preStop *LifecycleHandler
  3 stopSignal *string
LifecycleHandler
  1 exec *ExecAction ; a command that must end with zero
  2 httpGet *HTTPGetAction ; a request that must be answered
  3 tcpSocket *TCPSocketAction ; a port that must accept connections
  4 sleep *SleepAction
Probe ; a question asked of a container again and again
  1 - ProbeHandler
  2 initialDelaySeconds int32 ; wait after start
  3 timeoutSeconds int32 ; longest time for one answer
  4 periodSeconds int32 ; time between two probes
  5 successThreshold int32 ; successes in a row that count
  6 failureThreshold int32 ; failures in a row that count
  7 terminationGracePeriodSeconds *int64
ProbeHandler
  1 exec *ExecAction ; a command that must end with zero
  2 httpGet *HTTPGetAction ; a request that must be answered
  3 tcpSocket *TCPSocketAction ; a port that must accept connections
  4 grpc *GRPCAction ; a gRPC health service that must answer
SELinuxOptions
  1 user string ; name of the user
  2 role string
  3 type string
  4 level string
SeccompProfile
  1 type string ! +
  2 localhostProfile *string ; file of the profile on the node
SecretEnvSource
  1 - LocalObjectReference
  2 optional *bool ; whether absence is tolerated
SecretKeySelector atomic
  1 - LocalObjectReference
  2 key string ! +
  3 optional *bool ; whether absence is tolerated
SecurityContext
  1 capabilities *Capabilities ; Linux capabilities to add or drop
  2 privileged *bool ; whether it is as mighty as root on the node
  3 seLinuxOptions *SELinuxOptions ; SELinux labels
  4 runAsUser *int64 ; user number the process runs as
  5 runAsNonRoot *bool ; refuse to run as root
  6 readOnlyRootFilesystem *bool ; whether its root is read-only
  7 allowPrivilegeEscalation *bool ; whether a process may gain privileges
  8 runAsGroup *int64 ; group number the process runs as
  9 procMount *string
  10 windowsOptions *WindowsSecurityContextOptions ; settings on Windows
  11 seccompProfile *SeccompProfile ; system calls that are allowed
  12 appArmorProfile *AppArmorProfile ; AppArmor confinement
SleepAction
  1 seconds int64 ! +
TCPSocketAction
  1 port intstr !
  2 host string
VolumeDevice
  1 name string ! +
  2 devicePath string ! + ; path of the device
VolumeMount ; a volume at a path of a container
  1 name string ! + ; volume that is mounted
  2 readOnly bool ; whether writing is forbidden
  3 mountPath string ! + ; where it appears
  4 subPath string ; only this path of the volume
  5 mountPropagation *string
  6 subPathExpr string
  7 recursiveReadOnly *string
WindowsSecurityContextOptions
  1 gmsaCredentialSpecName *string
  2 gmsaCredentialSpec *string
  3 runAsUserName *string
  4 hostProcess *bool
"""
