"""Custom resource definitions, as one table of fields."""

TABLE = """\
package io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1
CustomResourceColumnDefinition
  1 name string ! +
  2 type string ! +
  3 format string
  4 description string
  5 priority int32
  6 jsonPath string ! +
CustomResourceConversion
  1 strategy string ! +
  2 webhook *WebhookConversion
CustomResourceDefinition
  1 metadata ObjectMeta
  2 spec CustomResourceDefinitionSpec !
  3 status CustomResourceDefinitionStatus
CustomResourceDefinitionCondition
  1 type string ! +
  2 status string ! +
  3 lastTransitionTime time
  4 reason string
  5 message string
  6 observedGeneration int64
CustomResourceDefinitionNames
  1 plural string ! +
  2 singular string
  3 shortNames []string
  4 kind string ! +
  5 listKind string
  6 categories []string
CustomResourceDefinitionSpec
  1 group string ! +
  3 names CustomResourceDefinitionNames !
  4 scope string ! +
  7 versions []CustomResourceDefinitionVersion ! +
  9 conversion *CustomResourceConversion
  10 preserveUnknownFields bool
CustomResourceDefinitionStatus
  1 conditions []CustomResourceDefinitionCondition map=type +
  2 acceptedNames CustomResourceDefinitionNames
  3 storedVersions []string +
  4 observedGeneration int64
CustomResourceDefinitionVersion
  1 name string ! +
  2 served bool ! +
  3 storage bool ! +
  4 schema *CustomResourceValidation
  5 subresources *CustomResourceSubresources
  6 additionalPrinterColumns []CustomResourceColumnDefinition
  7 deprecated bool
  8 deprecationWarning *string
  9 selectableFields []SelectableField
CustomResourceSubresourceScale
  1 specReplicasPath string ! +
  2 statusReplicasPath string ! +
  3 labelSelectorPath *string
CustomResourceSubresourceStatus
CustomResourceSubresources
  1 status *CustomResourceSubresourceStatus
  2 scale *CustomResourceSubresourceScale
CustomResourceValidation
  1 openAPIV3Schema *JSONSchemaProps
ExternalDocumentation
  1 description string
  2 url string
JSONSchemaProps
  1 id string
  2 $schema string
  3 $ref *string
  4 description string
  5 type string
  6 format string
  7 title string
  8 default *json
  9 maximum *double
  10 exclusiveMaximum bool
  11 minimum *double
  12 exclusiveMinimum bool
  13 maxLength *int64
  14 minLength *int64
  15 pattern string
  16 maxItems *int64
  17 minItems *int64
  18 uniqueItems bool
  19 multipleOf *double
  20 enum []json
  21 maxProperties *int64
  22 minProperties *int64
  23 required []string
  24 items *schemaOrArray
  25 allOf []JSONSchemaProps
  26 oneOf []JSONSchemaProps
  27 anyOf []JSONSchemaProps
  28 not *JSONSchemaProps
  29 properties {}JSONSchemaProps
  30 additionalProperties *schemaOrBool
  31 patternProperties {}JSONSchemaProps
  32 dependencies {}schemaOrStrings
  33 additionalItems *schemaOrBool
  34 definitions {}JSONSchemaProps
  35 externalDocs *ExternalDocumentation
  36 example *json
  37 nullable bool
  38 x-kubernetes-preserve-unknown-fields *bool
  39 x-kubernetes-embedded-resource bool
  40 x-kubernetes-int-or-string bool
  41 x-kubernetes-list-map-keys []string
  42 x-kubernetes-list-type *string
  43 x-kubernetes-map-type *string
  44 x-kubernetes-validations []ValidationRule map=rule merge=rule
SelectableField
  1 jsonPath string ! +
ServiceReference
  1 namespace string ! +
  2 name string ! +
  3 path *string
  4 port *int32
ValidationRule
  1 rule string ! +
  2 message string
  3 messageExpression string
  4 reason *string
  5 fieldPath string
  6 optionalOldSelf *bool
WebhookClientConfig
  1 service *ServiceReference
  2 caBundle bytes
  3 url *string
WebhookConversion
  2 clientConfig *WebhookClientConfig
  3 conversionReviewVersions []string ! +
"""
