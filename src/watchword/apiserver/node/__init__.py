"""The process node: runs Watchword's own workloads without a kubelet."""
