// Package controlplane runs a real etcd, kube-apiserver and kube-scheduler on loopback, without
// kubelets or controllers: nodes are plain objects, and what is bound stays bound.
package controlplane
