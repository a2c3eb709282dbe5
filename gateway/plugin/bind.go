package plugin

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Bind has the gateway bind the pod, if it binds. Otherwise, and if the pod was placed without the gateway, the next plugin does.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *corev1.Pod, node string) (status *fwk.Status) {
	defer Recovered(ctx, "Bind", &status)
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil || asked.answer == nil || asked.bindTimeout == 0 {
		return fwk.NewStatus(fwk.Skip)
	}
	args, err := json.Marshal(extenderv1.ExtenderBindingArgs{PodName: pod.Name, PodNamespace: pod.Namespace, PodUID: pod.UID, Node: node})
	if err != nil {
		return fwk.AsStatus(err)
	}
	return fwk.AsStatus(p.gateway.bind(ctx, args, asked.bindTimeout))
}
