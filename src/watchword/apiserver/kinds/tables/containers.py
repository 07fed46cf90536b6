"""Containers: what a pod runs, as one table of fields."""

TABLE = """\
package io.k8s.api.core.v1
AppArmorProfile
  1 type string ! +
  2 localhostProfile *string
Capabilities
  1 add []string
  2 drop []string
ConfigMapEnvSource
  1 - LocalObjectReference
  2 optional *bool
ConfigMapKeySelector atomic
  1 - LocalObjectReference
  2 key string ! +
  3 optional *bool
Container
  1 name string ! +
  2 image string
  3 command []string
  4 args []string
  5 workingDir string
  6 ports []ContainerPort map=containerPort,protocol merge=containerPort
  7 env []EnvVar map=name merge=name
  8 resources ResourceRequirements
  9 volumeMounts []VolumeMount map=mountPath merge=mountPath
  10 livenessProbe *Probe
  11 readinessProbe *Probe
  12 lifecycle *Lifecycle
  13 terminationMessagePath string
  14 imagePullPolicy string
  15 securityContext *SecurityContext
  16 stdin bool
  17 stdinOnce bool
  18 tty bool
  19 envFrom []EnvFromSource
  20 terminationMessagePolicy string
  21 volumeDevices []VolumeDevice map=devicePath merge=devicePath
  22 startupProbe *Probe
  23 resizePolicy []ContainerResizePolicy
  24 restartPolicy *string
  25 restartPolicyRules []ContainerRestartRule
ContainerPort
  1 name string
  2 hostPort int32
  3 containerPort int32 ! +
  4 protocol string
  5 hostIP string
ContainerResizePolicy
  1 resourceName string ! +
  2 restartPolicy string ! +
ContainerRestartRule
  1 action string !
  2 exitCodes *ContainerRestartRuleOnExitCodes
ContainerRestartRuleOnExitCodes
  1 operator string !
  2 values []int32 set
EnvFromSource
  1 prefix string
  2 configMapRef *ConfigMapEnvSource
  3 secretRef *SecretEnvSource
EnvVar
  1 name string ! +
  2 value string
  3 valueFrom *EnvVarSource
EnvVarSource
  1 fieldRef *ObjectFieldSelector
  2 resourceFieldRef *ResourceFieldSelector
  3 configMapKeyRef *ConfigMapKeySelector
  4 secretKeyRef *SecretKeySelector
  5 fileKeyRef *FileKeySelector
EphemeralContainer
  1 - EphemeralContainerCommon
  2 targetContainerName string
EphemeralContainerCommon
  1 name string ! +
  2 image string
  3 command []string
  4 args []string
  5 workingDir string
  6 ports []ContainerPort map=containerPort,protocol merge=containerPort
  7 env []EnvVar map=name merge=name
  8 resources ResourceRequirements
  9 volumeMounts []VolumeMount map=mountPath merge=mountPath
  10 livenessProbe *Probe
  11 readinessProbe *Probe
  12 lifecycle *Lifecycle
  13 terminationMessagePath string
  14 imagePullPolicy string
  15 securityContext *SecurityContext
  16 stdin bool
  17 stdinOnce bool
  18 tty bool
  19 envFrom []EnvFromSource
  20 terminationMessagePolicy string
  21 volumeDevices []VolumeDevice map=devicePath merge=devicePath
  22 startupProbe *Probe
  23 resizePolicy []ContainerResizePolicy
  24 restartPolicy *string
  25 restartPolicyRules []ContainerRestartRule
ExecAction
  1 command []string
FileKeySelector atomic
  1 volumeName string ! +
  2 path string ! +
  3 key string ! +
  4 optional *bool
GRPCAction
  1 port int32 ! +
  2 service *string +
HTTPGetAction
  1 path string
  2 port intstr !
  3 host string
  4 scheme string
  5 httpHeaders []HTTPHeader
HTTPHeader
  1 name string ! +
  2 value string ! +
Lifecycle
  1 postStart *LifecycleHandler
  2 preStop *LifecycleHandler
  3 stopSignal *string
LifecycleHandler
  1 exec *ExecAction
  2 httpGet *HTTPGetAction
  3 tcpSocket *TCPSocketAction
  4 sleep *SleepAction
Probe
  1 - ProbeHandler
  2 initialDelaySeconds int32
  3 timeoutSeconds int32
  4 periodSeconds int32
  5 successThreshold int32
  6 failureThreshold int32
  7 terminationGracePeriodSeconds *int64
ProbeHandler
  1 exec *ExecAction
  2 httpGet *HTTPGetAction
  3 tcpSocket *TCPSocketAction
  4 grpc *GRPCAction
SELinuxOptions
  1 user string
  2 role string
  3 type string
  4 level string
SeccompProfile
  1 type string ! +
  2 localhostProfile *string
SecretEnvSource
  1 - LocalObjectReference
  2 optional *bool
SecretKeySelector atomic
  1 - LocalObjectReference
  2 key string ! +
  3 optional *bool
SecurityContext
  1 capabilities *Capabilities
  2 privileged *bool
  3 seLinuxOptions *SELinuxOptions
  4 runAsUser *int64
  5 runAsNonRoot *bool
  6 readOnlyRootFilesystem *bool
  7 allowPrivilegeEscalation *bool
  8 runAsGroup *int64
  9 procMount *string
  10 windowsOptions *WindowsSecurityContextOptions
  11 seccompProfile *SeccompProfile
  12 appArmorProfile *AppArmorProfile
SleepAction
  1 seconds int64 ! +
TCPSocketAction
  1 port intstr !
  2 host string
VolumeDevice
  1 name string ! +
  2 devicePath string ! +
VolumeMount
  1 name string ! +
  2 readOnly bool
  3 mountPath string ! +
  4 subPath string
  5 mountPropagation *string
  6 subPathExpr string
  7 recursiveReadOnly *string
WindowsSecurityContextOptions
  1 gmsaCredentialSpecName *string
  2 gmsaCredentialSpec *string
  3 runAsUserName *string
  4 hostProcess *bool
"""
