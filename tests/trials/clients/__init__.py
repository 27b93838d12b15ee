"""The trial of deploy/kubernetes on a real control plane, with a stand-in for the kubelets."""
