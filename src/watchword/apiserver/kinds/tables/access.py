"""Roles, reviews, certificates and leases, as one table of fields."""

TABLE = """\
package io.k8s.api.rbac.v1
AggregationRule
  1 clusterRoleSelectors []LabelSelector ; labels of the roles that are gathered
ClusterRole ; rules for the whole cluster
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 rules []PolicyRule + ; what the role allows
  3 aggregationRule *AggregationRule ; other roles whose rules are gathered here
ClusterRoleBinding ; gives a role to subjects everywhere
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 subjects []Subject ; who gets the role
  3 roleRef RoleRef ! ; the role; it can never change
PolicyRule ; verbs that are allowed on resources or paths
  1 verbs []string ! + ; what is allowed
  2 apiGroups []string ; groups the rule covers; empty string is the core group
  3 resources []string ; resources the rule covers
  4 resourceNames []string ; only objects of these names; none means all
  5 nonResourceURLs []string ; paths that are no resource; may end with a star
Role ; rules for one namespace
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 rules []PolicyRule + ; what the role allows
RoleBinding ; gives a role to subjects in one namespace
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 subjects []Subject ; who gets the role
  3 roleRef RoleRef ! ; the role; it can never change
RoleRef atomic ; the role that is given
  1 apiGroup string ! + ; API group of what is named
  2 kind string ! + ; kind of what is named
  3 name string ! + ; name of the role
Subject atomic ; a user, group or service account
  1 kind string ! + ; User, Group or ServiceAccount
  2 apiGroup string ; API group of what is named
  3 name string ! + ; name of the subject
  4 namespace string ; namespace of a ServiceAccount
package io.k8s.api.authentication.v1
BoundObjectReference
  1 kind string ; kind of what is named
  2 apiVersion string ; group and version of the kind
  3 name string
  4 uid string ; identity that no other object ever has
SelfSubjectReview ; asks who the caller is
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 status SelfSubjectReviewStatus ; what is observed, written by the control plane
SelfSubjectReviewStatus
  1 userInfo UserInfo ; who asks, as the server sees it
TokenRequest ; asks for a token of a service account
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec TokenRequestSpec ! ; what is wanted
  3 status TokenRequestStatus ; what is observed, written by the control plane
TokenRequestSpec
  1 audiences []string ! + ; who is meant to accept the token
  3 boundObjectRef *BoundObjectReference + ; object whose end is also the end of the token
  4 expirationSeconds *int64 + ; how long the credential should last
TokenRequestStatus
  1 token string ! + ; the token
  2 expirationTimestamp time ! ; when it ends
TokenReview ; asks whom a token belongs to
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec TokenReviewSpec ! ; what is wanted
  3 status TokenReviewStatus ; what is observed, written by the control plane
TokenReviewSpec
  1 token string ; token in question
  2 audiences []string ; who is meant to accept the token
TokenReviewStatus
  1 authenticated bool ; whether the token is believed
  2 user UserInfo ; whom it belongs to
  3 error string ; why it is not believed
  4 audiences []string ; who is meant to accept the token
UserInfo
  1 username string ; name of the user
  2 uid string ; identity that no other object ever has
  3 groups []string ; groups the user belongs to
  4 extra {}strings ; further claims about the user
package io.k8s.api.authorization.v1
FieldSelectorAttributes
  1 rawSelector string ; the selector as it was written
  2 requirements []FieldSelectorRequirement ; parsed form of the selector
LabelSelectorAttributes
  1 rawSelector string ; the selector as it was written
  2 requirements []LabelSelectorRequirement ; parsed form of the selector
LocalSubjectAccessReview ; asks what a user may do in one namespace
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec SubjectAccessReviewSpec ! ; what is wanted
  3 status SubjectAccessReviewStatus ; what is observed, written by the control plane
NonResourceAttributes
  1 path string ; path that would be asked for
  2 verb string ; method in lower case
NonResourceRule
  1 verbs []string ! + ; what is allowed
  2 nonResourceURLs []string ; paths that are no resource; may end with a star
ResourceAttributes
  1 namespace string ; namespace of what is named
  2 verb string ; what would be done
  3 group string ; API group
  4 version string ; API version
  5 resource string ; resource in the plural
  6 subresource string ; part of the resource
  7 name string ; name of the object; empty for all
  8 fieldSelector *FieldSelectorAttributes ; only objects with these field values
  9 labelSelector *LabelSelectorAttributes ; only objects with these labels
ResourceRule
  1 verbs []string ! + ; what is allowed
  2 apiGroups []string ; groups the rule covers; empty string is the core group
  3 resources []string ; resources the rule covers
  4 resourceNames []string ; only objects of these names; none means all
SelfSubjectAccessReview ; asks what the caller may do
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec SelfSubjectAccessReviewSpec ! ; what is wanted
  3 status SubjectAccessReviewStatus ; what is observed, written by the control plane
SelfSubjectAccessReviewSpec
  1 resourceAttributes *ResourceAttributes ; access to an object or collection
  2 nonResourceAttributes *NonResourceAttributes ; access to a path
SelfSubjectRulesReview ; asks for all that the caller may do in one namespace
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec SelfSubjectRulesReviewSpec ! ; what is wanted
  3 status SubjectRulesReviewStatus ; what is observed, written by the control plane
SelfSubjectRulesReviewSpec
  1 namespace string ; namespace of what is named
SubjectAccessReview ; asks what a user may do
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec SubjectAccessReviewSpec ! ; what is wanted
  3 status SubjectAccessReviewStatus ; what is observed, written by the control plane
SubjectAccessReviewSpec
  1 resourceAttributes *ResourceAttributes ; access to an object or collection
  2 nonResourceAttributes *NonResourceAttributes ; access to a path
  3 user string ; name of the user
  4 groups []string ; groups the user belongs to
  5 extra {}strings ; further claims about the user
  6 uid string ; identity that no other object ever has
SubjectAccessReviewStatus
  1 allowed bool ! + ; whether it is allowed
  2 reason string ; one word for machines
  3 evaluationError string ; what went wrong while deciding
  4 denied bool ; whether it is forbidden for good
SubjectRulesReviewStatus
  1 resourceRules []ResourceRule ! + ; what is allowed on resources
  2 nonResourceRules []NonResourceRule ! + ; what is allowed on paths
  3 incomplete bool ! + ; whether more may be allowed than is listed
  4 evaluationError string ; what went wrong while deciding
package io.k8s.api.certificates.v1
CertificateSigningRequest ; asks a signer for a certificate
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec CertificateSigningRequestSpec ! ; what is wanted
  3 status CertificateSigningRequestStatus ; what is observed, written by the control plane
CertificateSigningRequestCondition
  1 type string ! + ; Approved, Denied or Failed
  2 reason string ; one word for machines
  3 message string ; details for people
  4 lastUpdateTime time ; when the condition was last written
  5 lastTransitionTime time ; when the status last changed
  6 status string ! + ; True, False or Unknown
CertificateSigningRequestSpec
  1 request bytes ! + ; certificate request in PEM
  2 username string ; who asked, set by the server
  3 uid string ; identity of the requester, set by the server
  4 groups []string ; groups the user belongs to
  5 usages []string ; what the certificate may be used for
  6 extra {}strings ; further claims about the user
  7 signerName string ! + ; who is asked to sign
  8 expirationSeconds *int32 ; how long the credential should last
CertificateSigningRequestStatus
  1 conditions []CertificateSigningRequestCondition map=type ; what is currently true of the object
  2 certificate bytes ; issued certificates in PEM
package io.k8s.api.coordination.v1
Lease ; who leads, and until when
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec LeaseSpec ; what is wanted
LeaseSpec
  1 holderIdentity *string ; who holds the lease
  2 leaseDurationSeconds *int32 ; how long others must wait after a renewal
  3 acquireTime *microtime ; when the holder took it
  4 renewTime *microtime ; when the holder last renewed it
  5 leaseTransitions *int32 ; how often the holder changed
  6 strategy *string ; how a coordinated election chooses
  7 preferredHolder *string ; who should take over
package io.k8s.api.events.v1
Event ; something that happened to an object
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 eventTime microtime ! ; when it was first observed
  3 series *EventSeries ; how often and until when it was repeated
  4 reportingController string ; controller that reported it
  5 reportingInstance string ; which instance of the reporter
  6 action string ; what was done
  7 reason string ; one word for machines
  8 regarding ObjectReference ; object the event is about
  9 related *ObjectReference ; a second object it concerns
  10 note string ; what happened, for people
  11 type string ; Normal or Warning
  12 deprecatedSource EventSource ; older form of the reporter
  13 deprecatedFirstTimestamp time ; older form of the first observation
  14 deprecatedLastTimestamp time ; older form of the last observation
  15 deprecatedCount int32 ; older form of the number of observations
EventSeries
  1 count int32 ! + ; observations so far
  2 lastObservedTime microtime ! ; the latest observation
"""
