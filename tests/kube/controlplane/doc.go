// Package controlplane runs a real etcd, kube-apiserver and kube-scheduler on loopback, without kubelets or
// controllers: nodes are plain objects, and bound pods stay bound.
package controlplane
