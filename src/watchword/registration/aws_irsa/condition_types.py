"""The types of conditions that report IAM identities."""

from __future__ import annotations

READY = "AwsIdentityReady"
