"""IAM roles by which EKS clusters prove to an EKS hub who they are."""
