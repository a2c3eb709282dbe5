//go:build kubernetes1.35 || kubernetes1.36

package main

import "k8s.io/kubernetes/pkg/scheduler/apis/config"

// preemptionPoints are the extension points at which kube-scheduler evicts pods, and one that DefaultPreemption has as well: enabled
// anywhere, it would evict for pod groups of 1.36, which have no extension point.
func preemptionPoints(enabled *config.Plugins) map[string]config.PluginSet {
	return map[string]config.PluginSet{"postFilter": enabled.PostFilter, "preEnqueue": enabled.PreEnqueue}
}
