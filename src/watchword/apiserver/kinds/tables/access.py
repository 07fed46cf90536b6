"""Roles, reviews, certificates and leases, as one table of fields."""

TABLE = """\
package io.k8s.api.rbac.v1
AggregationRule
  1 clusterRoleSelectors []LabelSelector
ClusterRole
  1 metadata ObjectMeta
  2 rules []PolicyRule +
  3 aggregationRule *AggregationRule
ClusterRoleBinding
  1 metadata ObjectMeta
  2 subjects []Subject
  3 roleRef RoleRef !
PolicyRule
  1 verbs []string ! +
  2 apiGroups []string
  3 resources []string
  4 resourceNames []string
  5 nonResourceURLs []string
Role
  1 metadata ObjectMeta
  2 rules []PolicyRule +
RoleBinding
  1 metadata ObjectMeta
  2 subjects []Subject
  3 roleRef RoleRef !
RoleRef atomic
  1 apiGroup string ! +
  2 kind string ! +
  3 name string ! +
Subject atomic
  1 kind string ! +
  2 apiGroup string
  3 name string ! +
  4 namespace string
package io.k8s.api.authentication.v1
BoundObjectReference
  1 kind string
  2 apiVersion string
  3 name string
  4 uid string
SelfSubjectReview
  1 metadata ObjectMeta
  2 status SelfSubjectReviewStatus
SelfSubjectReviewStatus
  1 userInfo UserInfo
TokenRequest
  1 metadata ObjectMeta
  2 spec TokenRequestSpec !
  3 status TokenRequestStatus
TokenRequestSpec
  1 audiences []string ! +
  3 boundObjectRef *BoundObjectReference +
  4 expirationSeconds *int64 +
TokenRequestStatus
  1 token string ! +
  2 expirationTimestamp time !
TokenReview
  1 metadata ObjectMeta
  2 spec TokenReviewSpec !
  3 status TokenReviewStatus
TokenReviewSpec
  1 token string
  2 audiences []string
TokenReviewStatus
  1 authenticated bool
  2 user UserInfo
  3 error string
  4 audiences []string
UserInfo
  1 username string
  2 uid string
  3 groups []string
  4 extra {}strings
package io.k8s.api.authorization.v1
FieldSelectorAttributes
  1 rawSelector string
  2 requirements []FieldSelectorRequirement
LabelSelectorAttributes
  1 rawSelector string
  2 requirements []LabelSelectorRequirement
LocalSubjectAccessReview
  1 metadata ObjectMeta
  2 spec SubjectAccessReviewSpec !
  3 status SubjectAccessReviewStatus
NonResourceAttributes
  1 path string
  2 verb string
NonResourceRule
  1 verbs []string ! +
  2 nonResourceURLs []string
ResourceAttributes
  1 namespace string
  2 verb string
  3 group string
  4 version string
  5 resource string
  6 subresource string
  7 name string
  8 fieldSelector *FieldSelectorAttributes
  9 labelSelector *LabelSelectorAttributes
ResourceRule
  1 verbs []string ! +
  2 apiGroups []string
  3 resources []string
  4 resourceNames []string
SelfSubjectAccessReview
  1 metadata ObjectMeta
  2 spec SelfSubjectAccessReviewSpec !
  3 status SubjectAccessReviewStatus
SelfSubjectAccessReviewSpec
  1 resourceAttributes *ResourceAttributes
  2 nonResourceAttributes *NonResourceAttributes
SelfSubjectRulesReview
  1 metadata ObjectMeta
  2 spec SelfSubjectRulesReviewSpec !
  3 status SubjectRulesReviewStatus
SelfSubjectRulesReviewSpec
  1 namespace string
SubjectAccessReview
  1 metadata ObjectMeta
  2 spec SubjectAccessReviewSpec !
  3 status SubjectAccessReviewStatus
SubjectAccessReviewSpec
  1 resourceAttributes *ResourceAttributes
  2 nonResourceAttributes *NonResourceAttributes
  3 user string
  4 groups []string
  5 extra {}strings
  6 uid string
SubjectAccessReviewStatus
  1 allowed bool ! +
  2 reason string
  3 evaluationError string
  4 denied bool
SubjectRulesReviewStatus
  1 resourceRules []ResourceRule ! +
  2 nonResourceRules []NonResourceRule ! +
  3 incomplete bool ! +
  4 evaluationError string
package io.k8s.api.certificates.v1
CertificateSigningRequest
  1 metadata ObjectMeta
  2 spec CertificateSigningRequestSpec !
  3 status CertificateSigningRequestStatus
CertificateSigningRequestCondition
  1 type string ! +
  2 reason string
  3 message string
  4 lastUpdateTime time
  5 lastTransitionTime time
  6 status string ! +
CertificateSigningRequestSpec
  1 request bytes ! +
  2 username string
  3 uid string
  4 groups []string
  5 usages []string
  6 extra {}strings
  7 signerName string ! +
  8 expirationSeconds *int32
CertificateSigningRequestStatus
  1 conditions []CertificateSigningRequestCondition map=type
  2 certificate bytes
package io.k8s.api.coordination.v1
Lease
  1 metadata ObjectMeta
  2 spec LeaseSpec
LeaseSpec
  1 holderIdentity *string
  2 leaseDurationSeconds *int32
  3 acquireTime *microtime
  4 renewTime *microtime
  5 leaseTransitions *int32
  6 strategy *string
  7 preferredHolder *string
package io.k8s.api.events.v1
Event
  1 metadata ObjectMeta
  2 eventTime microtime !
  3 series *EventSeries
  4 reportingController string
  5 reportingInstance string
  6 action string
  7 reason string
  8 regarding ObjectReference
  9 related *ObjectReference
  10 note string
  11 type string
  12 deprecatedSource EventSource
  13 deprecatedFirstTimestamp time
  14 deprecatedLastTimestamp time
  15 deprecatedCount int32
EventSeries
  1 count int32 ! +
  2 lastObservedTime microtime !
"""
