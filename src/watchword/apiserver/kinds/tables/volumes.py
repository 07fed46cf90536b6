"""Volumes: what a pod mounts, as one table of fields."""

TABLE = """\
package io.k8s.api.core.v1
AWSElasticBlockStoreVolumeSource
  1 volumeID string ! + ; identity of the volume
  2 fsType string ; type of the file system
  3 partition int32
  4 readOnly bool ; whether writing is forbidden
AzureDiskVolumeSource
  1 diskName string ! +
  2 diskURI string ! +
  3 cachingMode *string
  4 fsType *string ; type of the file system
  5 readOnly *bool ; whether writing is forbidden
  6 kind *string ; kind of what is named
AzureFileVolumeSource
  1 secretName string ! +
  2 shareName string ! +
  3 readOnly bool ; whether writing is forbidden
CSIVolumeSource
  1 driver string ! + ; name of the driver
  2 readOnly *bool ; whether writing is forbidden
  3 fsType *string ; type of the file system
  4 volumeAttributes {}string
  5 nodePublishSecretRef *LocalObjectReference
CephFSVolumeSource
  1 monitors []string ! +
  2 path string
  3 user string ; name of the user
  4 secretFile string
  5 secretRef *LocalObjectReference ; secret that grants access
  6 readOnly bool ; whether writing is forbidden
CinderVolumeSource
  1 volumeID string ! + ; identity of the volume
  2 fsType string ; type of the file system
  3 readOnly bool ; whether writing is forbidden
  4 secretRef *LocalObjectReference ; secret that grants access
ClusterTrustBundleProjection
  1 name *string
  2 signerName *string ; who is asked to sign
  3 labelSelector *LabelSelector ; only objects with these labels
  4 path string ! +
  5 optional *bool ; whether absence is tolerated
ConfigMapProjection
  1 - LocalObjectReference
  2 items []KeyToPath ; which keys appear, and where
  4 optional *bool ; whether absence is tolerated
ConfigMapVolumeSource
  1 - LocalObjectReference
  2 items []KeyToPath ; which keys appear, and where
  3 defaultMode *int32 ; permission bits of created files
  4 optional *bool ; whether absence is tolerated
DownwardAPIProjection
  1 items []DownwardAPIVolumeFile ; which keys appear, and where
DownwardAPIVolumeFile
  1 path string ! +
  2 fieldRef *ObjectFieldSelector
  3 resourceFieldRef *ResourceFieldSelector
  4 mode *int32 ; permission bits of this file
DownwardAPIVolumeSource
  1 items []DownwardAPIVolumeFile ; which keys appear, and where
  2 defaultMode *int32 ; permission bits of created files
EmptyDirVolumeSource
  1 medium string ; Memory for a file system in memory
  2 sizeLimit *quantity ; most it may hold
EphemeralVolumeSource
  1 volumeClaimTemplate *PersistentVolumeClaimTemplate
FCVolumeSource
  1 targetWWNs []string
  2 lun *int32
  3 fsType string ; type of the file system
  4 readOnly bool ; whether writing is forbidden
  5 wwids []string
FlexVolumeSource
  1 driver string ! + ; name of the driver
  2 fsType string ; type of the file system
  3 secretRef *LocalObjectReference ; secret that grants access
  4 readOnly bool ; whether writing is forbidden
  5 options {}string
FlockerVolumeSource
  1 datasetName string
  2 datasetUUID string
GCEPersistentDiskVolumeSource
  1 pdName string ! +
  2 fsType string ; type of the file system
  3 partition int32
  4 readOnly bool ; whether writing is forbidden
GitRepoVolumeSource
  1 repository string ! +
  2 revision string
  3 directory string
GlusterfsVolumeSource
  1 endpoints string ! +
  2 path string ! +
  3 readOnly bool ; whether writing is forbidden
HostPathVolumeSource
  1 path string ! + ; path on the node
  2 type *string ; what must be there
ISCSIVolumeSource
  1 targetPortal string ! +
  2 iqn string ! +
  3 lun int32 ! +
  4 iscsiInterface string
  5 fsType string ; type of the file system
  6 readOnly bool ; whether writing is forbidden
  7 portals []string
  8 chapAuthDiscovery bool
  10 secretRef *LocalObjectReference ; secret that grants access
  11 chapAuthSession bool
  12 initiatorName *string
ImageVolumeSource
  1 reference string
  2 pullPolicy string
KeyToPath
  1 key string ! + ; key that is shown
  2 path string ! + ; file it is shown as
  3 mode *int32 ; permission bits of this file
NFSVolumeSource
  1 server string ! +
  2 path string ! +
  3 readOnly bool ; whether writing is forbidden
PersistentVolumeClaimSpec
  1 accessModes []string
  2 resources VolumeResourceRequirements
  3 volumeName string ; name of the volume
  4 selector *LabelSelector
  5 storageClassName *string
  6 volumeMode *string
  7 dataSource *TypedLocalObjectReference
  8 dataSourceRef *TypedObjectReference
  9 volumeAttributesClassName *string
PersistentVolumeClaimTemplate
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec PersistentVolumeClaimSpec ! ; what is wanted
PersistentVolumeClaimVolumeSource
  1 claimName string ! +
  2 readOnly bool ; whether writing is forbidden
PhotonPersistentDiskVolumeSource
  1 pdID string ! +
  2 fsType string ; type of the file system
PodCertificateProjection
  1 signerName string ! ; who is asked to sign
  2 keyType string !
  3 maxExpirationSeconds *int32
  4 credentialBundlePath string
  5 keyPath string
  6 certificateChainPath string
  7 userAnnotations {}string
PortworxVolumeSource
  1 volumeID string ! + ; identity of the volume
  2 fsType string ; type of the file system
  3 readOnly bool ; whether writing is forbidden
ProjectedVolumeSource
  1 sources []VolumeProjection + ; what is put together
  2 defaultMode *int32 ; permission bits of created files
QuobyteVolumeSource
  1 registry string ! +
  2 volume string ! +
  3 readOnly bool ; whether writing is forbidden
  4 user string ; name of the user
  5 group string
  6 tenant string
RBDVolumeSource
  1 monitors []string ! +
  2 image string ! + ; name of the block image
  3 fsType string ; type of the file system
  4 pool string
  5 user string ; name of the user
  6 keyring string
  7 secretRef *LocalObjectReference ; secret that grants access
  8 readOnly bool ; whether writing is forbidden
ScaleIOVolumeSource
  1 gateway string ! +
  2 system string ! +
  3 secretRef *LocalObjectReference ! + ; secret that grants access
  4 sslEnabled bool
  5 protectionDomain string
  6 storagePool string
  7 storageMode string
  8 volumeName string ; name of the volume
  9 fsType string ; type of the file system
  10 readOnly bool ; whether writing is forbidden
SecretProjection
  1 - LocalObjectReference
  2 items []KeyToPath ; which keys appear, and where
  4 optional *bool ; whether absence is tolerated
SecretVolumeSource
  1 secretName string ; name of the Secret
  2 items []KeyToPath ; which keys appear, and where
  3 defaultMode *int32 ; permission bits of created files
  4 optional *bool ; whether absence is tolerated
ServiceAccountTokenProjection
  1 audience string ; who is meant to accept the token
  2 expirationSeconds *int64 ; how long the credential should last
  3 path string ! + ; file the token is written to
StorageOSVolumeSource
  1 volumeName string ; name of the volume
  2 volumeNamespace string
  3 fsType string ; type of the file system
  4 readOnly bool ; whether writing is forbidden
  5 secretRef *LocalObjectReference ; secret that grants access
TypedLocalObjectReference atomic
  1 apiGroup *string + ; API group of what is named
  2 kind string ! + ; kind of what is named
  3 name string ! +
TypedObjectReference
  1 apiGroup *string + ; API group of what is named
  2 kind string ! + ; kind of what is named
  3 name string ! +
  4 namespace *string ; namespace of what is named
Volume ; something that containers can mount
  1 name string ! + ; name that mounts refer to
  2 - VolumeSource
VolumeProjection
  1 secret *SecretProjection ; keys of a Secret
  2 downwardAPI *DownwardAPIProjection ; facts about the pod
  3 configMap *ConfigMapProjection ; keys of a ConfigMap
  4 serviceAccountToken *ServiceAccountTokenProjection ; a token that is kept fresh
  5 clusterTrustBundle *ClusterTrustBundleProjection
  6 podCertificate *PodCertificateProjection
VolumeResourceRequirements
  1 limits {}quantity ; most that may be used
  2 requests {}quantity ; least that must be available
VolumeSource
  1 hostPath *HostPathVolumeSource ; a path of the node
  2 emptyDir *EmptyDirVolumeSource ; an empty directory that lives as long as the pod
  3 gcePersistentDisk *GCEPersistentDiskVolumeSource
  4 awsElasticBlockStore *AWSElasticBlockStoreVolumeSource
  5 gitRepo *GitRepoVolumeSource
  6 secret *SecretVolumeSource ; keys of a Secret as files
  7 nfs *NFSVolumeSource ; a share of an NFS server
  8 iscsi *ISCSIVolumeSource
  9 glusterfs *GlusterfsVolumeSource
  10 persistentVolumeClaim *PersistentVolumeClaimVolumeSource ; storage that was claimed
  11 rbd *RBDVolumeSource
  12 flexVolume *FlexVolumeSource
  13 cinder *CinderVolumeSource
  14 cephfs *CephFSVolumeSource
  15 flocker *FlockerVolumeSource
  16 downwardAPI *DownwardAPIVolumeSource ; facts about the pod as files
  17 fc *FCVolumeSource
  18 azureFile *AzureFileVolumeSource
  19 configMap *ConfigMapVolumeSource ; keys of a ConfigMap as files
  20 vsphereVolume *VsphereVirtualDiskVolumeSource
  21 quobyte *QuobyteVolumeSource
  22 azureDisk *AzureDiskVolumeSource
  23 photonPersistentDisk *PhotonPersistentDiskVolumeSource
  24 portworxVolume *PortworxVolumeSource
  25 scaleIO *ScaleIOVolumeSource
  26 projected *ProjectedVolumeSource ; several sources in one directory
  27 storageos *StorageOSVolumeSource
  28 csi *CSIVolumeSource ; storage of a CSI driver
  29 ephemeral *EphemeralVolumeSource ; storage claimed for the life of the pod
  30 image *ImageVolumeSource ; files of an image
VsphereVirtualDiskVolumeSource
  1 volumePath string ! +
  2 fsType string ; type of the file system
  3 storagePolicyName string
  4 storagePolicyID string
"""
