"""Clusters on EKS register with an EKS hub by their IAM roles."""
