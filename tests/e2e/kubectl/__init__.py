"""kubectl's everyday commands, against `ktrain up` and, where nothing needs running pods, a real kube-apiserver."""
