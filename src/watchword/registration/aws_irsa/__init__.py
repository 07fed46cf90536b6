"""Clusters on EKS register with an EKS hub by their IAM roles; `driver.py` describes the driver.

The description is not here, so that the commands of `watchword aws` need not load what hubs and agents need.
"""
