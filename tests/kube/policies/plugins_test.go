package policies

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
)

// factory makes a plugin of kube-scheduler.
type factory func(context.Context, runtime.Object, fwk.Handle, feature.Features) (fwk.Plugin, error)

// decoded are a plugin's args from JSON, through kube-scheduler's own strict decoder and defaults.
func decoded(kind, args string) (runtime.Object, error) {
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(args), &fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = "kubescheduler.config.k8s.io/v1", kind
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	object, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	return object, err
}

// configured is a plugin as kube-scheduler would make it from these args.
func configured(ctx context.Context, make factory, kind, args string) (fwk.Plugin, error) {
	return configuredIn(ctx, handle{}, make, kind, args)
}

// configuredIn is the same for a plugin that asks the scheduler for more.
func configuredIn(ctx context.Context, scheduler fwk.Handle, make factory, kind, args string) (fwk.Plugin, error) {
	object, err := decoded(kind, args)
	if err != nil {
		return nil, err
	}
	features := feature.NewSchedulerFeaturesFromGates(utilfeature.DefaultFeatureGate)
	return make(ctx, object, scheduler, features)
}

func plugin(t *testing.T, make factory, kind, args string) fwk.Plugin {
	t.Helper()
	plugin, err := configured(t.Context(), make, kind, args)
	if err != nil {
		t.Fatalf("%s: %v", args, err)
	}
	return plugin
}

// handle belongs to a scheduler of a cluster without device classes.
type handle struct{ fwk.Handle }

func (handle) SharedDRAManager() fwk.SharedDRAManager { return noDevices{} }

type noDevices struct{ fwk.SharedDRAManager }

func (noDevices) DeviceClassResolver() fwk.DeviceClassResolver { return noDevices{} }

func (noDevices) GetDeviceClass(corev1.ResourceName) *resourceapi.DeviceClass { return nil }

// verdicts are the statuses of the nodes, nil for those that fit. A status of PreFilter stands for all nodes.
func verdicts(t *testing.T, plugin fwk.Plugin, pod *corev1.Pod, infos []fwk.NodeInfo) []*fwk.Status {
	t.Helper()
	state := framework.NewCycleState()
	statuses := make([]*fwk.Status, len(infos))
	_, status := plugin.(fwk.PreFilterPlugin).PreFilter(t.Context(), state, pod, infos)
	for i, info := range infos {
		switch {
		case status.IsSkip():
		case !status.IsSuccess():
			statuses[i] = status
		default:
			statuses[i] = plugin.(fwk.FilterPlugin).Filter(t.Context(), state, pod, info)
		}
	}
	return statuses
}

// rawScores are the plugin's scores of each node before normalization. All are 0 if it skips scoring; it can also
// fail for a pod.
func rawScores(ctx context.Context, plugin fwk.Plugin, pod *corev1.Pod, infos []fwk.NodeInfo) ([]int64, error) {
	state := framework.NewCycleState()
	scores := make([]int64, len(infos))
	status := plugin.(fwk.PreScorePlugin).PreScore(ctx, state, pod, infos)
	if status.IsSkip() {
		return scores, nil
	}
	if !status.IsSuccess() {
		return nil, status.AsError()
	}
	for i, info := range infos {
		score, status := plugin.(fwk.ScorePlugin).Score(ctx, state, pod, info)
		if !status.IsSuccess() {
			return nil, fmt.Errorf("%s: %w", info.Node().Name, status.AsError())
		}
		scores[i] = score
	}
	return scores, nil
}
