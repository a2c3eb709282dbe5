package e2e

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"

	policyapi "extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// teamZone is where the nodes have more room for the pods of the team.
const teamZone = "eu-west-1b"

// teamRoom has hooks for the pods of one team: they go to a zone, and the nodes there have four more CPUs for them.
type teamRoom struct {
	policyapi.UnimplementedPolicyServiceServer
	policyapi.UnimplementedHookServiceServer
}

func (teamRoom) register(server *grpc.Server) {
	policyapi.RegisterPolicyServiceServer(server, teamRoom{})
	policyapi.RegisterHookServiceServer(server, teamRoom{})
}

func (teamRoom) GetInfo(context.Context, *policyapi.GetInfoRequest) (*policyapi.GetInfoResponse, error) {
	team := &policyapi.PodReads{Labels: &policyapi.MapReads{Keys: []string{"team"}}}
	zone := &policyapi.NodeReads{Labels: &policyapi.MapReads{Keys: []string{objects.ZoneLabel}}}
	return &policyapi.GetInfoResponse{
		Name: "team-room", Revision: "1", ApiVersion: "extender.policy.v1beta1",
		Services: []string{policyapi.HookService_ServiceDesc.ServiceName},
		Verbs: []*policyapi.VerbInfo{
			{
				Verb: policyapi.Verb_VERB_BEFORE_FILTER, Scope: policyapi.Scope_SCOPE_NODE, Effects: policyapi.Effects_EFFECTS_PURE,
				Reads:   &policyapi.Reads{Pod: team},
				Changes: []policyapi.ChangedPart{policyapi.ChangedPart_CHANGED_PART_POD_NODE_SELECTOR},
			},
			{
				Verb: policyapi.Verb_VERB_BEFORE_FILTER_NODES, Scope: policyapi.Scope_SCOPE_NODE, Effects: policyapi.Effects_EFFECTS_PURE,
				Reads:   &policyapi.Reads{Pod: team, Node: zone},
				Changes: []policyapi.ChangedPart{policyapi.ChangedPart_CHANGED_PART_NODE_ALLOCATABLE},
			},
		},
	}, nil
}

func isOfTeam(pod *policyapi.Pod) bool { return pod.Facts.Labels.Values[0] == "ml" }

func (t teamRoom) Change(_ context.Context, request *policyapi.ChangeRequest) (*policyapi.ChangeResponse, error) {
	response := &policyapi.ChangeResponse{Result: &policyapi.Result{Revision: "1"}}
	if request.Hook == policyapi.Verb_VERB_BEFORE_FILTER {
		response.Result.Outcome = &policyapi.Result_Evaluated{Evaluated: 1}
		response.Pod = t.changeOfPod(request.Pod)
	} else {
		response.Result.Outcome = &policyapi.Result_Evaluated{Evaluated: request.Nodes.Count}
		response.Nodes = t.changesOfNodes(request.Pod, request.Nodes.GetRows().GetRows())
	}
	return response, nil
}

func (teamRoom) changeOfPod(pod *policyapi.Pod) *policyapi.PodChange {
	if !isOfTeam(pod) {
		return nil
	}
	return &policyapi.PodChange{SetNodeSelector: map[string]string{objects.ZoneLabel: teamZone}, Reason: "team ml"}
}

func (teamRoom) changesOfNodes(pod *policyapi.Pod, rows []*policyapi.NodeRow) []*policyapi.NodeChange {
	var positions []uint32
	for at, row := range rows {
		if isOfTeam(pod) && row.Facts.Labels.Values[0] == teamZone {
			positions = append(positions, uint32(at))
		}
	}
	if len(positions) == 0 {
		return nil
	}
	return []*policyapi.NodeChange{{
		Positions: positions, AddAllocatable: &policyapi.Resources{MilliCpu: 4000}, Reason: "reserved for team ml",
	}}
}

// With kube-scheduler's own filters of resources and node affinity disabled, and the ready-made policies in their place, a
// hook decides what these are told: the pods of a team fit where others do not.
func TestHooksDecideWhatTheFiltersInPlaceOfKubeSchedulersSee(t *testing.T) {
	s := newScenario(t, "hooks give the pods of a team more room in a zone, and nobody else", gatewayFront{}, controlplane.Names)
	s.nodes(objects.Nodes(6, cpus(4)))
	gateway := s.startWithHooks()
	s.startScheduler(controlplane.SchedulerOptions{
		Extenders: entriesOf(s.bindingEntry(gateway.Address)), Scores: controlplane.ExtenderScoresOnly, Without: replaced,
	})
	stranger := requesting("stranger", 6000)
	var team []*corev1.Pod
	for range 2 {
		pod := requesting("trainer", 6000)
		pod.Labels["team"] = "ml"
		team = append(team, pod)
	}
	s.pods(append(team, stranger)...)
	used := map[string]bool{}
	for _, pod := range team {
		node := s.boundTo(pod)
		if zone := s.node(node).Labels[objects.ZoneLabel]; zone != teamZone || used[node] {
			s.Errorf("%s is on %s in %s; expected a node of its own in %s", pod.Name, node, zone, teamZone)
		}
		used[node] = true
	}
	if message := s.refused(stranger, corev1.PodReasonUnschedulable); !strings.Contains(message, "6 Insufficient cpu") {
		s.Errorf("the condition of the stranger says %s", message)
	}
	admin := s.adminOf(gateway)
	s.expectTold(s.explained(admin, team[0], "filter").Call("filter"), true)
	s.expectTold(s.explained(admin, stranger, "filter").Call("filter"), false)
	for _, pod := range []*corev1.Pod{team[0], stranger} {
		text, err := product.Explain(s.ctx, shared.Kubeconfig, admin, "table", pod)
		s.must(err)
		results.note("explain pod/" + pod.Name + ", with hooks:\n" + text)
	}
}

// startWithHooks runs the hooks and the two ready-made policies behind a gateway that binds: without kube-scheduler's filter of
// resources, only the gateway's last look before a Binding keeps two pods from taking the same room.
func (s *scenario) startWithHooks() *process.Server {
	s.Helper()
	hooks := product.Backend{
		Name: "team-room", URL: "http://" + s.startGRPC(teamRoom{}.register),
		BeforeFilter:      &product.Hook{Timeout: backendTimeout},
		BeforeFilterNodes: &product.Hook{Timeout: backendTimeout},
	}
	config := product.NewConfig(shared.Cluster, controlplane.Names, []product.Backend{
		s.nodePolicy(product.NodeResources), s.nodePolicy(product.NodeAffinity), hooks,
	})
	config.Pods, config.Binder = &product.Pods{Source: "Watch"}, "BuiltIn"
	config.Reasons = product.Reasons{Prefix: "None", Repeated: "AsGiven"}
	return serveGateway(s, config)
}

// expectTold checks what the log says that the hooks have changed: everything for the team, and nothing for others.
func (s *scenario) expectTold(call *product.Decision, isOfTeam bool) {
	s.Helper()
	if len(call.Backends) < 2 || call.Backends[0].Hook != "beforeFilter" || call.Backends[1].Hook != "beforeFilterNodes" {
		s.Errorf("the call begins with the parts %+v; expected the hooks", call.Backends)
		return
	}
	var want string
	if isOfTeam {
		want = "node selector " + objects.ZoneLabel + "=" + teamZone + ": team ml"
	}
	if got := call.Backends[0].PodChange; got != want {
		s.Errorf("the log says that the pod changed by %q; expected %q", got, want)
	}
	for _, node := range call.Nodes {
		want := isOfTeam && s.node(node.Name).Labels[objects.ZoneLabel] == teamZone
		change := product.NodeChange{Backend: "team-room", Change: "+4 cpu: reserved for team ml"}
		if got := len(node.Changes) == 1 && node.Changes[0] == change; got != want {
			s.Errorf("the log says that %s changed by %v; expected a change: %v", node.Name, node.Changes, want)
		}
	}
}
