package equivalence

import (
	"context"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	_ "k8s.io/kubernetes/pkg/scheduler" // contains the linked functions
	schedulerapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
)

// kube-scheduler's own code, which it does not export.

// buildExtenders makes the clients and puts the ignorable extenders last.
//
//go:linkname buildExtenders k8s.io/kubernetes/pkg/scheduler.buildExtenders
func buildExtenders(logger klog.Logger, extenders []schedulerapi.Extender, profiles []schedulerapi.KubeSchedulerProfile) ([]fwk.Extender, error)

// findNodesThatPassExtenders calls one after the other to filter.
//
//go:linkname findNodesThatPassExtenders k8s.io/kubernetes/pkg/scheduler.findNodesThatPassExtenders
func findNodesThatPassExtenders(ctx context.Context, extenders []fwk.Extender, pod *corev1.Pod, nodes []fwk.NodeInfo, statuses *framework.NodeToStatus) ([]fwk.NodeInfo, error)

// prioritizeNodes calls all at once to score, and adds up.
//
//go:linkname prioritizeNodes k8s.io/kubernetes/pkg/scheduler.prioritizeNodes
func prioritizeNodes(ctx context.Context, extenders []fwk.Extender, schedFramework framework.Framework, state fwk.CycleState, pod *corev1.Pod, nodes []fwk.NodeInfo) ([]fwk.NodePluginScores, error)

// callExtenders calls one after the other to preempt.
//
//go:linkname callExtenders k8s.io/kubernetes/pkg/scheduler/framework/preemption.(*Evaluator).callExtenders
func callExtenders(ev *preemption.Evaluator, logger klog.Logger, pod *corev1.Pod, candidates []preemption.Candidate) ([]preemption.Candidate, *fwk.Status)
