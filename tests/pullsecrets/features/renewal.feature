Feature: Keeping image pull secrets valid

  Background:
    Given a freshly installed cluster
    And a service account with a managed image pull secret

  Scenario Outline: The pull secret is not as it should be
    When <event>
    Then the managed integrated image pull secret gets another token
    And the auth values will be bound service account tokens

    Examples:
      | event                                              |
      | the data of the image pull secret is corrupted     |
      | a registry is added to the list of registries      |
      | the service account token signer has changed       |
      | the service account token is about to expire       |

  Scenario: An operator rewrites the service account
    When the annotation and the pull secrets of the service account are removed
    Then the service account lists the same image pull secret again
    And the namespace has one managed image pull secret of the service account
