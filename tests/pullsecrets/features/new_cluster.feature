Feature: Image pull secrets of a new cluster

  Scenario: New cluster created
    Given a freshly installed cluster
    Then no legacy service account token secrets are generated
    And the managed image pull secrets generated contain bound tokens
