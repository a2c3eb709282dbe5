// Package binaries finds or builds the programs that the tests run: etcd, kube-apiserver,
// kube-scheduler and the plain extender, all as ordinary packages of this Go module.
package binaries
