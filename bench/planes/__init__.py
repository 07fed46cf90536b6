"""The embedded control plane beside kube-apiserver and etcd: the same load on both, in one run."""
