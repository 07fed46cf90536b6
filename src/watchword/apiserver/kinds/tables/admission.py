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
  2 expression string ! + ; CEL expression
MatchResources atomic
  1 namespaceSelector *LabelSelector ; only namespaces with these labels
  2 objectSelector *LabelSelector
  3 resourceRules []NamedRuleWithOperations
  4 excludeResourceRules []NamedRuleWithOperations
  7 matchPolicy *string
NamedRuleWithOperations atomic
  1 resourceNames []string ; only objects of these names; none means all
  2 - RuleWithOperations
ParamKind atomic
  1 apiVersion string ; group and version of the kind
  2 kind string ; kind of what is named
ParamRef atomic
  1 name string
  2 namespace string ; namespace of what is named
  3 selector *LabelSelector
  4 parameterNotFoundAction *string
Rule
  1 apiGroups []string ; groups the rule covers; empty string is the core group
  2 apiVersions []string
  3 resources []string ; resources the rule covers
  4 scope *string
RuleWithOperations
  1 operations []string
  2 - Rule
TypeChecking
  1 expressionWarnings []ExpressionWarning
ValidatingAdmissionPolicy ; rules in CEL that requests must meet
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec ValidatingAdmissionPolicySpec ; what is wanted
  3 status ValidatingAdmissionPolicyStatus ; what is observed, written by the control plane
ValidatingAdmissionPolicyBinding ; says where a policy applies
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec ValidatingAdmissionPolicyBindingSpec ; what is wanted
ValidatingAdmissionPolicyBindingSpec
  1 policyName string ; policy that is bound
  2 paramRef *ParamRef ; parameters it gets
  3 matchResources *MatchResources ; where it applies
  4 validationActions []string set ; Deny, Warn or Audit
ValidatingAdmissionPolicySpec
  1 paramKind *ParamKind ; kind of the parameters
  2 matchConstraints *MatchResources ; requests the policy looks at
  3 validations []Validation ; expressions that must hold
  4 failurePolicy *string ; Fail or Ignore
  5 auditAnnotations []AuditAnnotation
  6 matchConditions []MatchCondition map=name merge=name ; further conditions on requests
  7 variables []Variable map=name merge=name ; named expressions
ValidatingAdmissionPolicyStatus
  1 observedGeneration int64 ; the generation this status answers to
  2 typeChecking *TypeChecking
  3 conditions []Condition map=type ; what is currently true of the object
Validation
  1 expression string ! + ; CEL expression
  2 message string ; details for people
  3 reason *string ; one word for machines
  4 messageExpression string ; CEL expression that yields the message
Variable atomic
  1 name string ! +
  2 expression string ! + ; CEL expression
"""
