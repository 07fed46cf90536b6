Feature: Migrating legacy image pull secrets

  Background:
    Given an existing cluster version N-1
    And the ImageRegistry capability is enabled
    And the integrated image registry is enabled
    And the cluster is upgraded to version N

  Scenario: Deleting a legacy managed image pull secret
    When a legacy managed image pull secret is deleted
    Then the corresponding legacy managed service account token secret will be deleted
    And the managed integrated image pull secret will be re-generated
    And the auth values will be bound service account tokens

  Scenario: Deleting a legacy managed service account token secret
    When a legacy managed service account token secret is deleted
    Then the corresponding legacy managed image pull secret will be deleted
    And the managed integrated image pull secret will be re-generated
    And the auth values will be bound service account tokens
