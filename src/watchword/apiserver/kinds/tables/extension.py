"""Custom resource definitions, as one table of fields."""

TABLE = """\
package io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1
CustomResourceColumnDefinition
  1 name string ! + ; heading
  2 type string ! + ; integer, number, string, boolean or date
  3 format string
  4 description string
  5 priority int32 ; zero is always shown
  6 jsonPath string ! + ; where the value stands
CustomResourceConversion
  1 strategy string ! + ; None or Webhook
  2 webhook *WebhookConversion
CustomResourceDefinition ; adds a kind to the API
  1 metadata ObjectMeta ; identity, labels and bookkeeping of the object
  2 spec CustomResourceDefinitionSpec ! ; what is wanted
  3 status CustomResourceDefinitionStatus ; what is observed, written by the control plane
CustomResourceDefinitionCondition
  1 type string ! + ; what the condition is about
  2 status string ! + ; True, False or Unknown
  3 lastTransitionTime time ; when the status last changed
  4 reason string ; one word for machines
  5 message string ; details for people
  6 observedGeneration int64 ; the generation this status answers to
CustomResourceDefinitionNames
  1 plural string ! + ; name in URLs
  2 singular string ; name for one object
  3 shortNames []string ; abbreviations
  4 kind string ! + ; name of the kind
  5 listKind string ; name of a list
  6 categories []string ; groups such as all
CustomResourceDefinitionSpec
  1 group string ! + ; API group of the new kind
  3 names CustomResourceDefinitionNames ! ; what the new kind is called
  4 scope string ! + ; Namespaced or Cluster
  7 versions []CustomResourceDefinitionVersion ! + ; versions, one of which is stored
  9 conversion *CustomResourceConversion ; how versions become each other
  10 preserveUnknownFields bool ; must be false
CustomResourceDefinitionStatus
  1 conditions []CustomResourceDefinitionCondition map=type + ; what is currently true of the object
  2 acceptedNames CustomResourceDefinitionNames ; names that are really served
  3 storedVersions []string + ; versions that were ever stored
  4 observedGeneration int64 ; the generation this status answers to
CustomResourceDefinitionVersion
  1 name string ! + ; name of the version
  2 served bool ! + ; whether it is offered
  3 storage bool ! + ; whether objects are stored in it
  4 schema *CustomResourceValidation ; how objects must look
  5 subresources *CustomResourceSubresources ; status and scale endpoints
  6 additionalPrinterColumns []CustomResourceColumnDefinition ; columns shown to people
  7 deprecated bool ; whether clients are warned
  8 deprecationWarning *string ; what they are told
  9 selectableFields []SelectableField ; fields that can be selected by
CustomResourceSubresourceScale
  1 specReplicasPath string ! +
  2 statusReplicasPath string ! +
  3 labelSelectorPath *string
CustomResourceSubresourceStatus
CustomResourceSubresources
  1 status *CustomResourceSubresourceStatus ; what is observed, written by the control plane
  2 scale *CustomResourceSubresourceScale
CustomResourceValidation
  1 openAPIV3Schema *JSONSchemaProps ; structural schema
ExternalDocumentation
  1 description string
  2 url string
JSONSchemaProps ; a schema of OpenAPI
  1 id string
  2 $schema string
  3 $ref *string
  4 description string ; what the field means
  5 type string ; JSON type
  6 format string ; what a text stands for
  7 title string
  8 default *json ; value when nothing is said
  9 maximum *double
  10 exclusiveMaximum bool
  11 minimum *double
  12 exclusiveMinimum bool
  13 maxLength *int64
  14 minLength *int64
  15 pattern string ; regular expression the text must match
  16 maxItems *int64
  17 minItems *int64
  18 uniqueItems bool
  19 multipleOf *double
  20 enum []json ; values that are allowed
  21 maxProperties *int64
  22 minProperties *int64
  23 required []string ; fields that must be there
  24 items *schemaOrArray ; elements of a list
  25 allOf []JSONSchemaProps
  26 oneOf []JSONSchemaProps
  27 anyOf []JSONSchemaProps
  28 not *JSONSchemaProps
  29 properties {}JSONSchemaProps ; fields of an object
  30 additionalProperties *schemaOrBool ; values of a map
  31 patternProperties {}JSONSchemaProps
  32 dependencies {}schemaOrStrings
  33 additionalItems *schemaOrBool
  34 definitions {}JSONSchemaProps
  35 externalDocs *ExternalDocumentation
  36 example *json
  37 nullable bool ; whether null is kept
  38 x-kubernetes-preserve-unknown-fields *bool ; keep fields that the schema does not know
  39 x-kubernetes-embedded-resource bool ; the value is a whole object
  40 x-kubernetes-int-or-string bool ; number or text
  41 x-kubernetes-list-map-keys []string ; fields that tell elements apart
  42 x-kubernetes-list-type *string ; atomic, set or map
  43 x-kubernetes-map-type *string ; granular or atomic
  44 x-kubernetes-validations []ValidationRule map=rule merge=rule ; rules in CEL
SelectableField
  1 jsonPath string ! +
ServiceReference
  1 namespace string ! + ; namespace of what is named
  2 name string ! +
  3 path *string
  4 port *int32
ValidationRule
  1 rule string ! + ; CEL expression that must hold
  2 message string ; what is said when it does not
  3 messageExpression string ; CEL expression that yields the message
  4 reason *string ; one word for machines
  5 fieldPath string ; path of one field
  6 optionalOldSelf *bool
WebhookClientConfig
  1 service *ServiceReference
  2 caBundle bytes
  3 url *string
WebhookConversion
  2 clientConfig *WebhookClientConfig
  3 conversionReviewVersions []string ! +
"""
