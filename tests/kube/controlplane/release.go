package controlplane

import (
	configv1 "k8s.io/kube-scheduler/config/v1"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/schedulers"
)

// Release is a kube-scheduler. The zero value is that of this Go module, which is as new as kube-apiserver; no newer one
// works.
type Release struct {
	// of is nil for this Go module's.
	of *schedulers.Release
}

// ReleaseOf is another kube-scheduler.
func ReleaseOf(release schedulers.Release) Release { return Release{&release} }

func (r Release) program() string {
	if r.of == nil {
		return binaries.Scheduler
	}
	return r.of.Program()
}

// configurationVersion is the newest version of KubeSchedulerConfiguration that it reads. The fields that tests set have
// the same names in both.
func (r Release) configurationVersion() string {
	if r.of != nil && r.of.MinorNumber() < 25 {
		return "kubescheduler.config.k8s.io/v1beta3"
	}
	return configv1.SchemeGroupVersion.String()
}

// readyPath answers with 200 when it is ready. Releases before 1.31 have no /readyz, and begin to schedule when they have
// seen all nodes and pods.
func (r Release) readyPath() string {
	if r.of != nil && r.of.MinorNumber() < 31 {
		return "/healthz"
	}
	return "/readyz"
}
