"""AWS on a socket, for tests and trials: IAM, STS and EKS with real signatures and trust policies."""

from tests.emulators.aws.emulator import AwsEmulator, EksCluster

__all__ = ["AwsEmulator", "EksCluster"]
