"""A hub of some thousand clusters on the embedded control plane, beside the same hub on kube-apiserver and etcd."""
