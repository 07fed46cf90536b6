"""Every resource that Watchword uses."""

from watchword.api.meta import Resource
from watchword.api.names import ADDON_GROUP, CLUSTER_GROUP, OPERATOR_GROUP, WORK_GROUP

RBAC_GROUP = "rbac.authorization.k8s.io"
ADMISSION_GROUP = "admissionregistration.k8s.io"
AUTHENTICATION_GROUP, AUTHORIZATION_GROUP = "authentication.k8s.io", "authorization.k8s.io"

# Core and built-in groups
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
SECRETS = Resource("", "v1", "secrets", "Secret")
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
SERVICES = Resource("", "v1", "services", "Service")
PODS = Resource("", "v1", "pods", "Pod")
CORE_EVENTS = Resource("", "v1", "events", "Event")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
POD_MONITORS = Resource("monitoring.coreos.com", "v1", "podmonitors", "PodMonitor")  # of Prometheus' operator
SERVICE_MONITORS = Resource("monitoring.coreos.com", "v1", "servicemonitors", "ServiceMonitor")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
ROLES = Resource(RBAC_GROUP, "v1", "roles", "Role")
ROLE_BINDINGS = Resource(RBAC_GROUP, "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLES = Resource(RBAC_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(RBAC_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
CERTIFICATE_SIGNING_REQUESTS = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
VALIDATING_ADMISSION_POLICIES = Resource(
    ADMISSION_GROUP, "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
VALIDATING_ADMISSION_POLICY_BINDINGS = Resource(
    ADMISSION_GROUP, "v1", "validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", namespaced=False
)

# Reviews, which are answered and not stored
TOKEN_REVIEWS = Resource(AUTHENTICATION_GROUP, "v1", "tokenreviews", "TokenReview", namespaced=False)
SELF_SUBJECT_REVIEWS = Resource(AUTHENTICATION_GROUP, "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False)
SUBJECT_ACCESS_REVIEWS = Resource(
    AUTHORIZATION_GROUP, "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
SELF_SUBJECT_ACCESS_REVIEWS = Resource(
    AUTHORIZATION_GROUP, "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
LOCAL_SUBJECT_ACCESS_REVIEWS = Resource(
    AUTHORIZATION_GROUP, "v1", "localsubjectaccessreviews", "LocalSubjectAccessReview"
)
SELF_SUBJECT_RULES_REVIEWS = Resource(
    AUTHORIZATION_GROUP, "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", namespaced=False
)

# Fleet kinds
MANAGED_CLUSTERS = Resource(CLUSTER_GROUP, "v1", "managedclusters", "ManagedCluster", namespaced=False)
MANAGED_CLUSTER_SETS = Resource(CLUSTER_GROUP, "v1beta2", "managedclustersets", "ManagedClusterSet", namespaced=False)
MANAGED_CLUSTER_SET_BINDINGS = Resource(
    CLUSTER_GROUP, "v1beta2", "managedclustersetbindings", "ManagedClusterSetBinding"
)
PLACEMENT_DECISIONS = Resource(CLUSTER_GROUP, "v1beta1", "placementdecisions", "PlacementDecision")
CLUSTER_CLAIMS = Resource(CLUSTER_GROUP, "v1alpha1", "clusterclaims", "ClusterClaim", namespaced=False)
MANAGED_CLUSTER_ADDONS = Resource(ADDON_GROUP, "v1beta1", "managedclusteraddons", "ManagedClusterAddOn")
CLUSTER_MANAGEMENT_ADDONS = Resource(
    ADDON_GROUP, "v1beta1", "clustermanagementaddons", "ClusterManagementAddOn", namespaced=False
)
ADDON_TEMPLATES = Resource(ADDON_GROUP, "v1alpha1", "addontemplates", "AddOnTemplate", namespaced=False)
ADDON_DEPLOYMENT_CONFIGS = Resource(ADDON_GROUP, "v1alpha1", "addondeploymentconfigs", "AddOnDeploymentConfig")
MANIFEST_WORKS = Resource(WORK_GROUP, "v1", "manifestworks", "ManifestWork")
APPLIED_MANIFEST_WORKS = Resource(WORK_GROUP, "v1", "appliedmanifestworks", "AppliedManifestWork", namespaced=False)
KLUSTERLETS = Resource(OPERATOR_GROUP, "v1", "klusterlets", "Klusterlet", namespaced=False)
CLUSTER_MANAGERS = Resource(OPERATOR_GROUP, "v1", "clustermanagers", "ClusterManager", namespaced=False)

# Managed service accounts: the group of the design, and the group that Open Cluster Management serves
MANAGED_SERVICE_ACCOUNTS = Resource(
    "proxy.open-cluster-management.io", "v1alpha1", "managedserviceaccounts", "ManagedServiceAccount"
)
OCM_MANAGED_SERVICE_ACCOUNTS = Resource(
    "authentication.open-cluster-management.io", "v1beta1", "managedserviceaccounts", "ManagedServiceAccount"
)
CLUSTER_PROFILES = Resource("multicluster.x-k8s.io", "v1alpha1", "clusterprofiles", "ClusterProfile")
