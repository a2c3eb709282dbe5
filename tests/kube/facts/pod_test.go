package facts

import (
	"encoding/json"
	"math"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"
)

// pods is the number of compared pods.
const pods = 2000

// defaults are what kube-scheduler counts for a container that requests none of a resource.
func defaults() v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(util.DefaultMilliCPURequest, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(util.DefaultMemoryRequest, resource.DecimalSI),
	}
}

// counted are the amounts of a list in kube-scheduler's units.
func counted(list v1.ResourceList) amounts {
	a := amounts{Others: map[string]int64{}}
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			a.MilliCPU = scaled(q, resource.Milli)
		case v1.ResourceMemory:
			a.Memory = scaled(q, 0)
		case v1.ResourceEphemeralStorage:
			a.EphemeralStorage = scaled(q, 0)
		default:
			a.Others[string(name)] = scaled(q, 0)
		}
	}
	return a
}

// placed is a pod's requests: it takes one of the places of its node.
func placed(list v1.ResourceList) amounts {
	a := counted(list)
	a.Pods = 1
	return a
}

// nonzero is the part of it that scores use.
func nonzero(list v1.ResourceList) amounts {
	a := counted(list)
	return amounts{MilliCPU: a.MilliCPU, Memory: a.Memory}
}

// held is what kube-scheduler counts for a node that has only this pod.
func held(pod *v1.Pod) share {
	node := framework.NewNodeInfo(pod)
	others := map[string]int64{}
	for name, value := range node.Requested.ScalarResources {
		others[string(name)] = value
	}
	return share{
		Requested: amounts{
			MilliCPU: node.Requested.MilliCPU, Memory: node.Requested.Memory,
			EphemeralStorage: node.Requested.EphemeralStorage, Pods: int64(len(node.Pods)), Others: others,
		},
		Nonzero: amounts{MilliCPU: node.NonZeroRequested.MilliCPU, Memory: node.NonZeroRequested.Memory},
	}
}

// fits reports whether no amount exceeds the type, where kube-scheduler's own sums are wrong.
func fits(a amounts) bool {
	for _, value := range a.Others {
		if value == math.MaxInt64 {
			return false
		}
	}
	return a.MilliCPU < math.MaxInt64 && a.Memory < math.MaxInt64 && a.EphemeralStorage < math.MaxInt64
}

// differs reports a difference, with the pod.
func differs(t *testing.T, pod *v1.Pod, what string, expected, got any) {
	t.Helper()
	if !reflect.DeepEqual(expected, got) {
		text, _ := json.Marshal(pod)
		t.Errorf("%s: Kubernetes has %+v, the gateway %+v, of %s", what, expected, got, text)
	}
}

// TestPodsAreCountedAsKubeSchedulerCountsThem has two halves: a pod to be placed is counted by its spec alone, as
// NodeResourcesFit and its score count it; a pod on a node as NodeInfo counts it.
func TestPodsAreCountedAsKubeSchedulerCountsThem(t *testing.T) {
	g := newGenerator(seed(t))
	var questions []question
	for n := range pods {
		questions = append(questions, question{Pod: g.pod(t, n)})
	}
	inRange, resized := 0, 0
	for i, got := range ask(t, questions) {
		pod := questions[i].Pod
		if got.Error != "" {
			t.Errorf("the gateway does not read a pod: %s", got.Error)
			continue
		}
		requests := placed(helpers.PodRequests(pod, helpers.PodResourcesOptions{}))
		differs(t, pod, "PodRequests", requests, got.Requests)
		scored := helpers.PodRequests(pod, helpers.PodResourcesOptions{NonMissingContainerRequests: defaults()})
		differs(t, pod, "PodRequests with defaults", nonzero(scored), got.NonzeroRequests)
		ended := pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
		differs(t, pod, "ended", ended, got.Ended)

		onNode := helpers.PodRequests(pod, helpers.PodResourcesOptions{
			UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
		})
		differs(t, pod, "PodRequests with the status", placed(onNode), got.Share.Requested)
		if fits(got.Share.Requested) && fits(got.Share.Nonzero) {
			inRange++
			differs(t, pod, "NodeInfo", held(pod), got.Share)
		}
		if !reflect.DeepEqual(got.Requests, got.Share.Requested) {
			resized++
		}
	}
	if inRange < pods/2 || resized < pods/10 {
		t.Errorf("%d pods in range, %d in a resize: the cases prove little", inRange, resized)
	}
}
