"""One workload, several subjects, one real kube-apiserver: what each costs and how long it takes."""
