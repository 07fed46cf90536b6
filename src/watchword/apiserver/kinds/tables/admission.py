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
Validation
  1 expression string ! +
  2 message string
  3 reason *string
  4 messageExpression string
Variable atomic
  1 name string ! +
  2 expression string ! +
"""
