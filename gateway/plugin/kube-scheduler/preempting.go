package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"

	"extender-gateway.io/plugin"
)

// preempting is the plugin with a PostFilter that evicts pods: kube-scheduler's own preemption, which asks the gateway as it asks
// extenders. Its own plugin asks extenders only, of which there are none.
type preempting struct {
	*plugin.Plugin
	preemption *defaultpreemption.DefaultPreemption
	profile    framework.Framework
	features   feature.Features
	// protected are the pods that the pod group of this attempt may not evict: kube-scheduler makes one attempt at a time.
	protected sets.Set[types.UID]
}

var (
	_ fwk.PostFilterPlugin = &preempting{}
	_ fwk.PreEnqueuePlugin = &preempting{}
)

// handle is what kube-scheduler's preemption knows of the profile.
type handle struct {
	fwk.Handle
	of *preempting
}

// Extenders implements framework.Handle: the gateway is one of them.
func (h handle) Extenders() []fwk.Extender {
	return append(slices.Clone(h.Handle.Extenders()), h.of.Preemption())
}

func newPreempting(ctx context.Context, args runtime.Object, given fwk.Handle) (fwk.Plugin, error) {
	profile, isProfile := given.(framework.Framework)
	if !isProfile {
		return nil, fmt.Errorf("plugin %s: expected a profile, not %T", plugin.Name, given)
	}
	asking, err := plugin.New(ctx, args, given)
	if err != nil {
		return nil, err
	}
	p := &preempting{Plugin: asking, profile: profile, features: feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)}
	// The defaults of DefaultPreemptionArgs.
	defaults := &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10, MinCandidateNodesAbsolute: 100}
	p.preemption, err = defaultpreemption.New(ctx, defaults, handle{profile, p}, p.features)
	if err != nil {
		return nil, errors.Join(err, asking.Close())
	}
	return p, nil
}

// PostFilter preempts, and adds why the plugin has rejected nodes.
func (p *preempting) PostFilter(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, statuses fwk.NodeToStatusReader) (_ *fwk.PostFilterResult, status *fwk.Status) {
	defer plugin.Recovered(ctx, "PostFilter", &status)
	result, status := p.preemption.PostFilter(ctx, state, pod, p.candidates(ctx, state, pod, statuses))
	if status.IsRejected() {
		_, why := p.Plugin.PostFilter(ctx, state, pod, statuses)
		status = fwk.NewStatus(status.Code(), append(status.Reasons(), why.Reasons()...)...)
	}
	return result, status
}

// PreEnqueue keeps a pod out of the queue while its victims are evicted.
func (p *preempting) PreEnqueue(ctx context.Context, pod *corev1.Pod) *fwk.Status {
	return p.preemption.PreEnqueue(ctx, pod)
}

// EventsToRegister is called once, when all plugins of the profile are known.
func (p *preempting) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	enabled := p.profile.ListPlugins()
	for name, point := range preemptionPoints(enabled) {
		if position(point, plugin.Name) < 0 || position(point, defaultpreemption.Name) >= 0 {
			return nil, fmt.Errorf("profile %s: at %s plugin %s is to preempt, and not %s, which asks no backend: enable the first, and add the other to plugins.multiPoint.disabled",
				p.profile.ProfileName(), name, plugin.Name, defaultpreemption.Name)
		}
	}
	own, other := position(enabled.Bind, plugin.Name), position(enabled.Bind, defaultbinder.Name)
	if own < 0 || other >= 0 && other < own {
		return nil, fmt.Errorf("profile %s: at bind plugin %s is to come before %s: add it to plugins.bind.enabled", p.profile.ProfileName(), plugin.Name, defaultbinder.Name)
	}
	return p.Plugin.EventsToRegister(ctx)
}

// position of a plugin; -1 if it is not enabled.
func position(set config.PluginSet, name string) int {
	return slices.IndexFunc(set.Enabled, func(enabled config.Plugin) bool { return enabled.Name == name })
}
