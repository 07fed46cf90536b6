"""A hub with a large fleet on a real kube-apiserver; the agents are simulated in one process."""
