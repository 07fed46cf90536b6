"""What a node of an embedded control plane runs: containers of Watchword's own image."""

import os

from watchword.api.names import IMAGE_NAME, RESTRICTED_KUBECONFIGS
from watchword.apiserver.node.model import Workloads

IMAGES = ("watchword", IMAGE_NAME)
COMMANDS = (
    "hub",
    "agent",
    "operator",
    "clean-clusters",
    "undeploy",
    "sample-addon",
    "managed-serviceaccount",
    "grpc-server",
    "pull-secrets",
)
"""The verbs a pod may run: those that work with the pod's own identity alone."""

WORKLOADS = Workloads(
    IMAGES,
    COMMANDS,
    {
        # Files of the pod's home could name programs to run, and pods mount files there.
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        RESTRICTED_KUBECONFIGS: "1",
    },
)
