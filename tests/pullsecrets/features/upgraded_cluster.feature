Feature: Image pull secrets of an upgraded cluster

  Background:
    Given an existing cluster version N-1
    And the ImageRegistry capability is enabled
    And the integrated image registry is enabled

  Scenario: Existing managed secrets
    When the cluster is upgraded to version N
    Then no legacy managed service account tokens are deleted
    And no legacy managed integrated image registry pull secrets are updated

  Scenario: New service accounts created after upgrade
    When the cluster is upgraded to version N
    And a new service account is created
    Then a new managed integrated image pull secret will be generated
    And the auth values will be bound service account tokens
    And no legacy service account token secrets will be generated
