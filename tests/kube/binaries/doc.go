// Package binaries finds or builds the programs that the tests run: etcd, kube-apiserver,
// kube-scheduler and the plain extender, all as ordinary packages of this Go module, and the
// OpenTelemetry Collector and the kube-scheduler with the gateway's plugin, modules of their own, and kube-schedulers of
// other releases, each with a go.mod of its own.
package binaries
