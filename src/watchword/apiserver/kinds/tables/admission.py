"""Admission policies and webhooks, as one table of fields."""

TABLE = """\
package io.k8s.api.admissionregistration.v1
AuditAnnotation
  1 key string ! +
  2 valueExpression string ! +
ExpressionWarning
  2 fieldRef string ! +
  3 warning string ! +
MatchCondition
  1 name string ! +
  2 expression string ! +
MatchResources atomic
  1 namespaceSelector *LabelSelector
  2 objectSelector *LabelSelector
  3 resourceRules []NamedRuleWithOperations
  4 excludeResourceRules []NamedRuleWithOperations
  7 matchPolicy *string
MutatingWebhook
  1 name string ! +
  2 clientConfig WebhookClientConfig !
  3 rules []RuleWithOperations
  4 failurePolicy *string
  5 namespaceSelector *LabelSelector
  6 sideEffects *string ! +
  7 timeoutSeconds *int32
  8 admissionReviewVersions []string ! +
  9 matchPolicy *string
  10 reinvocationPolicy *string
  11 objectSelector *LabelSelector
  12 matchConditions []MatchCondition map=name merge=name
MutatingWebhookConfiguration
  1 metadata ObjectMeta
  2 webhooks []MutatingWebhook map=name merge=name
NamedRuleWithOperations atomic
  1 resourceNames []string
  2 - RuleWithOperations
ParamKind atomic
  1 apiVersion string
  2 kind string
ParamRef atomic
  1 name string
  2 namespace string
  3 selector *LabelSelector
  4 parameterNotFoundAction *string
Rule
  1 apiGroups []string
  2 apiVersions []string
  3 resources []string
  4 scope *string
RuleWithOperations
  1 operations []string
  2 - Rule
ServiceReference
  1 namespace string ! +
  2 name string ! +
  3 path *string
  4 port *int32
TypeChecking
  1 expressionWarnings []ExpressionWarning
ValidatingAdmissionPolicy
  1 metadata ObjectMeta
  2 spec ValidatingAdmissionPolicySpec
  3 status ValidatingAdmissionPolicyStatus
ValidatingAdmissionPolicyBinding
  1 metadata ObjectMeta
  2 spec ValidatingAdmissionPolicyBindingSpec
ValidatingAdmissionPolicyBindingSpec
  1 policyName string
  2 paramRef *ParamRef
  3 matchResources *MatchResources
  4 validationActions []string set
ValidatingAdmissionPolicySpec
  1 paramKind *ParamKind
  2 matchConstraints *MatchResources
  3 validations []Validation
  4 failurePolicy *string
  5 auditAnnotations []AuditAnnotation
  6 matchConditions []MatchCondition map=name merge=name
  7 variables []Variable map=name merge=name
ValidatingAdmissionPolicyStatus
  1 observedGeneration int64
  2 typeChecking *TypeChecking
  3 conditions []Condition map=type
ValidatingWebhook
  1 name string ! +
  2 clientConfig WebhookClientConfig !
  3 rules []RuleWithOperations
  4 failurePolicy *string
  5 namespaceSelector *LabelSelector
  6 sideEffects *string ! +
  7 timeoutSeconds *int32
  8 admissionReviewVersions []string ! +
  9 matchPolicy *string
  10 objectSelector *LabelSelector
  11 matchConditions []MatchCondition map=name merge=name
ValidatingWebhookConfiguration
  1 metadata ObjectMeta
  2 webhooks []ValidatingWebhook map=name merge=name
Validation
  1 expression string ! +
  2 message string
  3 reason *string
  4 messageExpression string
Variable atomic
  1 name string ! +
  2 expression string ! +
WebhookClientConfig
  1 service *ServiceReference
  2 caBundle bytes
  3 url *string
"""
