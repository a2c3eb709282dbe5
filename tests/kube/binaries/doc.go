// Package binaries finds or builds the programs that the tests run: etcd, kube-apiserver,
// kube-scheduler and the plain extender, all as ordinary packages of this Go module, and the
// OpenTelemetry Collector and kube-schedulers of other releases, which are modules of their own.
package binaries
