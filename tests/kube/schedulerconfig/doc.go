// Package schedulerconfig has kube-scheduler's own loader and validation read what
// `extender-gateway scheduler-config` prints. There is nothing here but tests.
package schedulerconfig
