// Package schedulerconfig reads the output of `extender-gateway scheduler-config` with kube-scheduler's own loader
// and validation. It contains only tests.
package schedulerconfig
