package e2e

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	sdk "extender-gateway.io/policy"
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
	forEach(t, "hooks give the pods of a team more room in a zone, and nobody else", bothDoors, namesOnly, func(s *scenario) {
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
	})
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

// poolKey is the annotation of pods and the label of nodes that says to which pool they belong.
const poolKey = "acme.io/pool"

// spreadingHook sends the pods of a team to the pool gold, there to nodes with a cache, evenly over two zones.
func spreadingHook(isAway *atomic.Bool) sdk.Policy {
	var reads sdk.Reads
	team := reads.PodLabel("team")
	app := func(name string) *policyapi.LabelSelector {
		return &policyapi.LabelSelector{MatchLabels: map[string]string{"app": name}}
	}
	change := &sdk.PodChange{
		SetAnnotations: map[string]string{poolKey: "gold"}, Reason: "team ml",
		PodAffinity: &sdk.PodAffinity{Required: []*policyapi.PodAffinityTerm{{Selector: app("cache"), TopologyKey: corev1.LabelHostname}}},
		TopologySpread: &sdk.TopologySpread{Constraints: []*sdk.TopologySpreadConstraint{{
			Selector: app("trainer"), TopologyKey: objects.ZoneLabel, MaxSkew: 1, MinDomains: new(int32(2)), WhenUnsatisfiable: "DoNotSchedule",
		}}},
	}
	hook := func(pod sdk.Pod) *sdk.PodChange {
		if isAway.Load() {
			panic(sdk.CannotAnswer("the list of teams is being loaded"))
		}
		if of, _ := pod.Get(team); of != "ml" {
			return nil
		}
		return change
	}
	return sdk.Policy{Name: "spreading-hook", Version: "1", BeforeFilter: &sdk.BeforeFilter{
		Changes: []sdk.ChangedPart{sdk.ChangedPodAnnotations, sdk.ChangedPodAffinity, sdk.ChangedPodTopologySpread}, Reads: &reads, Pod: hook,
	}}
}

// placement decides by the annotation, by the affinity to pods on the node, and by the spread over zones. It does not read the
// label of the team: trainers differ for it only by what a hook has changed, also where answers are remembered. It
// prefers full zones.
func placement() sdk.Policy {
	var reads sdk.Reads
	reads.Pod(sdk.PodPodAffinity, sdk.PodTopologySpread)
	pool, poolOfNode := reads.PodAnnotation(poolKey), reads.NodeLabel(poolKey)
	onNode, inZones := reads.PodsBy(sdk.ByLabel("app")), reads.PodsByTopology(sdk.ByLabel("app"), objects.ZoneLabel)
	inZone := func(pod sdk.Pod, node sdk.Node) int64 {
		zones, _ := pod.PodsLike(inZones)
		here, _ := zones.Of(node)
		return int64(here.AtMost())
	}
	isUneven := func(pod sdk.Pod, node sdk.Node, spread *sdk.TopologySpreadConstraint) bool {
		zones, _ := pod.PodsLike(inZones)
		var counts []int64
		for _, zone := range zones.All() {
			counts = append(counts, int64(zone.Pods()))
		}
		if len(counts) < int(spread.GetMinDomains()) || len(counts) == 0 {
			counts = []int64{0}
		}
		return inZone(pod, node)+1 > slices.Min(counts)+int64(spread.MaxSkew)
	}
	filter := func(pod sdk.Pod, node sdk.Node) sdk.Verdict {
		apps := map[string]bool{}
		for count := range node.PodCounts(onNode) {
			apps[count.Value()] = true
		}
		isNear := func(term *policyapi.PodAffinityTerm) bool { return apps[term.Selector.MatchLabels["app"]] }
		isFar := func(term *policyapi.PodAffinityTerm) bool { return !isNear(term) }
		breaks := func(spread *sdk.TopologySpreadConstraint) bool { return isUneven(pod, node, spread) }
		has, _ := node.Get(poolOfNode)
		wants, isSet := pod.Get(pool)
		switch affinity := pod.PodAffinity(); {
		case isSet && has != wants:
			return sdk.Reject("another pool")
		case slices.ContainsFunc(affinity.GetAntiRequired(), isNear), slices.ContainsFunc(affinity.GetRequired(), isFar):
			return sdk.Reject("other pods")
		case slices.ContainsFunc(pod.TopologySpread(), breaks):
			return sdk.Reject("uneven")
		}
		return sdk.Accept()
	}
	return sdk.Policy{
		Name: "placement", Version: "1", Filter: &sdk.Filter{Pure: true, Reads: &reads, Node: filter},
		Score: &sdk.Score{Pure: true, Reads: &reads, Scale: sdk.Unbounded().Normalized(sdk.MinMax), Node: inZone},
	}
}

// trainer asks for the opposite of what the hook changes: bronze, a node without a cache, and any zone.
func trainer(team string) *corev1.Pod {
	pod := objects.NewReplicaSet(shop, "trainer", map[string]string{"team": team}).Pod()
	pod.Annotations[poolKey] = "bronze"
	cache, trainer := metav1.SetAsLabelSelector(labels.Set{"app": "cache"}), metav1.SetAsLabelSelector(labels.Set{"app": "trainer"})
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: cache, TopologyKey: corev1.LabelHostname}},
	}}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 9, TopologyKey: objects.ZoneLabel, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: trainer,
	}}
	return pod
}

func TestAHookDecidesAboutAnnotationsPodAffinityAndSpread(t *testing.T) {
	for _, failurePolicy := range []string{"Fail", "Ignore"} {
		t.Run(failurePolicy, func(t *testing.T) {
			forEach(t, "a hook changes what the pods of a team ask for, and fails for a while, "+failurePolicy, nightlyDoors, namesOnly, func(s *scenario) {
				isAway := &atomic.Bool{}
				admin := s.startPlacement(isAway, failurePolicy)
				for _, team := range []string{"ml", "ml", "web", "ml"} {
					pod := trainer(team)
					s.pods(pod)
					s.expectTrainer(admin, pod, team == "ml")
				}
				isAway.Store(true)
				unlucky, next := trainer("ml"), trainer("ml")
				s.pods(unlucky)
				if failurePolicy == "Ignore" {
					s.expectTrainer(admin, unlucky, false)
					isAway.Store(false)
				} else {
					if message := s.refused(unlucky, corev1.PodReasonSchedulerError); !strings.Contains(message, "spreading-hook") {
						s.Errorf("the condition does not name the hook: %s", message)
					}
					isAway.Store(false)
					s.expectTrainer(admin, unlucky, true)
				}
				s.pods(next)
				s.expectTrainer(admin, next, true)
			})
		})
	}
}

// startPlacement makes four bronze nodes and four of gold, in two zones in turn, of which the first two have a cache, and runs
// the hook and the policy. The filters that the policy replaces are off.
func (s *scenario) startPlacement(isAway *atomic.Bool, failurePolicy string) (admin string) {
	s.Helper()
	nodes := objects.Nodes(8)
	var caches []*corev1.Pod
	for i, node := range nodes {
		node.Labels[poolKey] = []string{"bronze", "gold"}[i/4]
		node.Labels[objects.ZoneLabel] = []string{"eu-west-1a", "eu-west-1b"}[i%2]
		if i%4 < 2 {
			cache := objects.NewReplicaSet(shop, "cache", nil).Pod()
			cache.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node.Name}
			caches = append(caches, cache)
		}
	}
	s.nodes(nodes)
	config := product.NewConfig(shared.Cluster, controlplane.Names, []product.Backend{
		{Name: "spreading-hook", URL: s.startSDK(spreadingHook(isAway)), BeforeFilter: &product.Hook{Timeout: backendTimeout, FailurePolicy: failurePolicy}},
		{Name: "placement", URL: s.startSDK(placement()), Filter: &product.Filter{Timeout: backendTimeout}, Score: &product.Score{Timeout: backendTimeout}},
	})
	config.Pods, config.Binder = &product.Pods{Source: "Watch"}, "BuiltIn"
	gateway := serveGateway(s, config)
	s.startScheduler(controlplane.SchedulerOptions{
		Extenders: entriesOf(s.bindingEntry(gateway.Address)), Scores: controlplane.ExtenderScoresOnly, Without: []string{"InterPodAffinity", "PodTopologySpread"},
	})
	s.pods(caches...)
	s.bound(caches...)
	return s.adminOf(gateway)
}

// expectTrainer waits until the pod has a node, and expects it where the hook's change puts it, or where it asks for itself.
func (s *scenario) expectTrainer(admin string, pod *corev1.Pod, isChanged bool) {
	s.Helper()
	node := s.bound(pod)[0]
	pods, err := shared.Client.CoreV1().Pods(shop).List(s.ctx, metav1.ListOptions{})
	s.must(err)
	var now corev1.Pod
	hasCache, others := false, map[string]int{}
	for _, other := range pods.Items {
		switch {
		case other.Name == pod.Name:
			now = other
		case other.Labels["app"] == "trainer":
			others[s.node(other.Spec.NodeName).Labels[objects.ZoneLabel]]++
		case other.Spec.NodeName == node.Name:
			hasCache = true
		}
	}
	pool, zone, told := "bronze", max(others["eu-west-1a"], others["eu-west-1b"]), ""
	if isChanged {
		pool, zone = "gold", min(others["eu-west-1a"], others["eu-west-1b"])
		told = "annotation " + poolKey + "=gold, another pod affinity, another topology spread: team ml"
	}
	if node.Labels[poolKey] != pool || hasCache != isChanged || others[node.Labels[objects.ZoneLabel]] != zone {
		s.Errorf("changed: %v, and %s is on %v, with a cache: %v; the zones have %v", isChanged, pod.Name, node.Labels, hasCache, others)
	}
	if part := s.explained(admin, pod, "filter").Call("filter").Backends[0]; part.Hook != "beforeFilter" || part.PodChange != told {
		s.Errorf("about %s, the log says %+v; expected %q", pod.Name, part, told)
	}
	is, was := []any{now.Annotations, now.Spec.Affinity, now.Spec.TopologySpreadConstraints}, []any{pod.Annotations, pod.Spec.Affinity, pod.Spec.TopologySpreadConstraints}
	if !equality.Semantic.DeepEqual(is, was) {
		s.Errorf("%s itself is changed to %+v", pod.Name, is)
	}
}
