package policy

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

func node(Pod, Node) Verdict                              { return Accept() }
func nodes(_ context.Context, _ Pod, all Nodes) []Verdict { return make([]Verdict, all.Len()) }
func scoreNode(Pod, Node) int64                           { return 0 }

func filters(filter Filter) Policy { return Policy{Name: "p", Version: "1", Filter: &filter} }
func scores(scale Scale) Policy {
	return Policy{Name: "p", Version: "1", Score: &Score{Node: scoreNode, Scale: scale}}
}

func TestEachMistakeIsNamed(t *testing.T) {
	for _, c := range []struct {
		policy Policy
		text   string
	}{
		{Policy{Name: "p", Version: "1"}, "no verb is declared"},
		{filters(Filter{}), "filter has no function; set Filter.Node or Filter.Nodes"},
		{filters(Filter{Node: node, Nodes: nodes}), "filter has Filter.Node and Filter.Nodes; remove one"},
		{filters(Filter{Node: node, Pure: true, SideEffects: true}), "filter has Pure and SideEffects; remove one"},
		{filters(Filter{Node: node, Scope: 7}), "filter has an unknown Scope"},
		{Policy{Name: "p", Version: "1", Bind: &Bind{}}, "bind has no function; set Bind.Pod"},
		{scores(Unbounded().Normalized(7)), "the normalization is unknown"},
		{scores(Between(10, 0)), "invalid policy: Between(10, 0): the least score is larger than the largest"},
		{Policy{Name: "\xff", Version: "1", Filter: &Filter{Node: node}}, "the declaration cannot be sent: "},
	} {
		_, err := NewService(c.policy)
		var declaration *DeclarationError
		if !errors.As(err, &declaration) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v lacks %q", err, c.text)
		}
	}
}

func TestAllMistakesComeTogether(t *testing.T) {
	p := filters(Filter{})
	p.Bind = &Bind{}
	var declaration *DeclarationError
	if _, err := NewService(p); !errors.As(err, &declaration) || len(declaration.Mistakes) != 2 {
		t.Errorf("%v", err)
	}
}

func TestEverythingThatIsDeclaredIsSent(t *testing.T) {
	var reads Reads
	reads.NodeLabel("zone")
	reads.Node(NodeUsage)
	nodeReads := &v1beta1.Reads{Node: &v1beta1.NodeReads{
		Parts: []v1beta1.NodePart{v1beta1.NodePart_NODE_PART_USAGE}, Labels: &v1beta1.MapReads{Keys: []string{"zone"}},
	}}
	nothing := &v1beta1.Reads{}
	p := Policy{
		Name: "all", Version: "1", Revision: "r1", RejectedConfiguration: "line 7",
		Filter: &Filter{Node: node, Pure: true, Reads: &reads},
		Score: &Score{
			Node: scoreNode, Scope: WholeSet, SideEffects: true, Reads: &reads, Scale: Between(-3, 7).Normalized(MinMax).Reversed(),
		},
		Preempt: &Preempt{
			Node: func(Pod, Candidate) Eviction { return Eviction{} }, Scope: WholeSet, SideEffects: true, Reads: Everything(),
		},
		Bind:         &Bind{Pod: func(context.Context, BindAsk) (BindResult, error) { return Bound(), nil }},
		BeforeFilter: &BeforeFilter{Pod: func(Pod) *PodChange { return nil }, Pure: true, Changes: allOfPod},
		BeforeFilterNodes: &BeforeFilterNodes{
			Nodes: func(context.Context, Pod, Nodes) []*NodeChange { return nil }, Reads: &reads,
			Changes: []ChangedPart{ChangedNodeTaints, ChangedNodeLabels, ChangedNodeTaints},
		},
		BeforeScore: &BeforeScore{
			Node: func(Pod, Node) *NodeChange { return nil }, Pure: true, Changes: []ChangedPart{ChangedNodeUsage},
		},
		Introspection: []Page{{Path: "/quotas/:namespace", Description: "A quota", Show: show}, {Path: "/all", Show: show}},
		Observe:       func(context.Context, Outcome) error { return nil },
	}
	d, err := declare(&p)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1beta1.GetInfoResponse{
		Name: "all", Version: "1", Revision: "r1", ApiVersion: "extender.policy.v1beta1", RejectedConfiguration: "line 7",
		Services: []string{
			"extender.policy.v1beta1.NodeTableService", "extender.policy.v1beta1.HookService", "extender.policy.v1beta1.IntrospectionService",
			"extender.policy.v1beta1.OutcomeService", "extender.policy.v1beta1.WatchService",
		},
		MaxRequestBytes: 64 << 20,
		Introspection:   []*v1beta1.IntrospectionPath{{Path: "/quotas/:namespace", Description: "A quota"}, {Path: "/all"}},
		Verbs: []*v1beta1.VerbInfo{
			{
				Verb: v1beta1.Verb_VERB_FILTER, Scope: v1beta1.Scope_SCOPE_NODE, Effects: v1beta1.Effects_EFFECTS_PURE, Reads: nodeReads,
			},
			{
				Verb: v1beta1.Verb_VERB_SCORE, Scope: v1beta1.Scope_SCOPE_WHOLE_SET,
				Effects: v1beta1.Effects_EFFECTS_CHANGES_OUTSIDE, Reads: nodeReads,
				ScoreMin: proto.Int32(-3), ScoreMax: proto.Int32(7),
				Normalization: v1beta1.Normalization_NORMALIZATION_MIN_MAX, Reversed: true,
			},
			{
				Verb: v1beta1.Verb_VERB_PREEMPT, Scope: v1beta1.Scope_SCOPE_WHOLE_SET, Effects: v1beta1.Effects_EFFECTS_CHANGES_OUTSIDE,
				Reads: &v1beta1.Reads{Pod: &v1beta1.PodReads{Everything: true}, Node: &v1beta1.NodeReads{Everything: true}},
			},
			{Verb: v1beta1.Verb_VERB_BIND, Reads: nothing},
			{
				Verb: v1beta1.Verb_VERB_BEFORE_FILTER, Scope: v1beta1.Scope_SCOPE_NODE, Effects: v1beta1.Effects_EFFECTS_PURE, Reads: nothing,
				Changes: []v1beta1.ChangedPart{1, 2, 3, 4, 5, 10, 11, 12},
			},
			{
				Verb: v1beta1.Verb_VERB_BEFORE_FILTER_NODES, Scope: v1beta1.Scope_SCOPE_WHOLE_SET,
				Effects: v1beta1.Effects_EFFECTS_READS_OUTSIDE, Reads: nodeReads,
				Changes: []v1beta1.ChangedPart{
					v1beta1.ChangedPart_CHANGED_PART_NODE_LABELS, v1beta1.ChangedPart_CHANGED_PART_NODE_TAINTS,
				},
			},
			{
				Verb: v1beta1.Verb_VERB_BEFORE_SCORE, Scope: v1beta1.Scope_SCOPE_NODE, Effects: v1beta1.Effects_EFFECTS_PURE,
				Reads: nothing, Changes: []v1beta1.ChangedPart{v1beta1.ChangedPart_CHANGED_PART_NODE_USAGE},
			},
		},
	}
	if !proto.Equal(d.response, want) {
		t.Errorf("%v; want %v", d.response, want)
	}
}

func TestATableIsForMoreThanNames(t *testing.T) {
	var name, zone, owners, usage, nominated, raw, ofPods Reads
	name.Node(NodeName)
	zone.NodeLabel("zone")
	owners.PodsBy(ByOwner())
	usage.Node(NodeUsage)
	nominated.Node(NodeNominated)
	raw.Node(NodeRawJSON)
	ofPods.Pod(PodOwner)
	for reads, wanted := range map[*Reads]bool{
		nil: false, &name: false, &ofPods: false, &zone: true, &owners: true, &usage: true, &nominated: true, &raw: true, Everything(): true,
	} {
		for _, without := range []bool{false, true} {
			p := filters(Filter{Node: node, Reads: reads})
			p.WithoutNodeTable = without
			d, err := declare(&p)
			if err != nil || len(d.response.GetServices()) == 2 != (wanted && !without) {
				t.Errorf("%v, %v", d.response, err)
			}
		}
	}
}

// Labels and parts that are included are not sent apart, and what is not included is declared besides.
func TestEverythingIsDeclaredByOneWord(t *testing.T) {
	reads := Everything()
	zone, prefix := reads.NodeLabel("zone"), reads.PodLabels("acme.io/")
	reads.Node(NodeName, NodeTaints, NodeImages, NodeUsage, NodeRawJSON)
	reads.Pod(PodIdentity, PodOwner, PodRawJSON)
	reads.NodeAnnotation("a")
	reads.PodAnnotations("b/")
	reads.PodsBy(ByOwner())
	reads.PodsByTopology(ByLabel("app"), "zone")
	want := &v1beta1.Reads{
		Pod: &v1beta1.PodReads{
			Everything: true, Parts: []v1beta1.PodPart{v1beta1.PodPart_POD_PART_IDENTITY, v1beta1.PodPart_POD_PART_RAW_JSON},
			Annotations:    &v1beta1.MapReads{Prefixes: []string{"b/"}},
			TopologyCounts: []*v1beta1.TopologyCountReads{{By: v1beta1.PodCountBy_POD_COUNT_BY_LABEL, Label: "app", TopologyKey: "zone"}},
		},
		Node: &v1beta1.NodeReads{
			Everything: true, Parts: []v1beta1.NodePart{
				v1beta1.NodePart_NODE_PART_USAGE, v1beta1.NodePart_NODE_PART_RAW_JSON, v1beta1.NodePart_NODE_PART_IMAGES,
			},
			Annotations: &v1beta1.MapReads{Keys: []string{"a"}},
			PodCounts:   []*v1beta1.PodCountReads{{By: v1beta1.PodCountBy_POD_COUNT_BY_OWNER}},
		},
	}
	layout := newLayout(reads, verbFilter)
	if !proto.Equal(layout.message, want) {
		t.Errorf("%v; want %v", layout.message, want)
	}
	n := Node{access: layout.node, row: &v1beta1.NodeRow{Name: "n", Facts: &v1beta1.NodeFacts{
		Labels: &v1beta1.MapValues{Entries: map[string]string{"zone": "z1"}},
	}}}
	p := podOrigin{access: layout.pod}.view(&v1beta1.Pod{Facts: &v1beta1.PodFacts{
		Labels: &v1beta1.MapValues{Entries: map[string]string{"acme.io/x": "1"}},
	}})
	byKey, _ := n.Get(zone)
	byText, _ := n.Label("zone")
	_, has := n.Label("other")
	if byKey != "z1" || byText != "z1" || has || n.Name() != "n" || n.Unschedulable() || p.Priority() != 0 || p.SchedulerName() != "" {
		t.Errorf("%q, %q, %v", byKey, byText, has)
	}
	for key, value := range p.Entries(prefix) {
		if key != "acme.io/x" || value != "1" {
			t.Errorf("%s=%s", key, value)
		}
	}
}

// Where there are no nodes, everything is all of the pod. What is declared of nodes all the same is for the gateway to reject.
func TestEverythingIsAllOfThePodWhereThereAreNoNodes(t *testing.T) {
	nodes := Everything()
	nodes.Node(NodeUsage)
	for _, verb := range []verb{verbBind, verbBeforeFilter} {
		for reads, want := range map[*Reads]*v1beta1.NodeReads{
			Everything(): nil, nodes: {Parts: []v1beta1.NodePart{v1beta1.NodePart_NODE_PART_USAGE}},
		} {
			sent := newLayout(reads, verb).message
			if !proto.Equal(sent, &v1beta1.Reads{Pod: &v1beta1.PodReads{Everything: true}, Node: want}) {
				t.Errorf("%v: %v", verb, sent)
			}
		}
	}
}

func TestWithEverythingADeclarationIsAnotherOne(t *testing.T) {
	var reads Reads
	reads.NodeLabel("zone")
	reads.NodeAnnotations("acme.io/")
	reads.PodsBy(ByOwner())
	before := newLayout(&reads, verbFilter)
	all := reads.AndEverything()
	all.NodeLabel("rack")
	all.NodeAnnotations("")
	all.PodsBy(ByNamespace())
	if after := newLayout(&reads, verbFilter); !proto.Equal(after.message, before.message) {
		t.Errorf("%v is not %v", after.message, before.message)
	}
	if counts := newLayout(all, verbFilter).rows.GetPodCounts(); len(counts) != 2 {
		t.Errorf("%v", counts)
	}
}

func TestADeclarationIsCanonical(t *testing.T) {
	var one, two Reads
	one.NodeLabel("zone")
	one.NodeLabel("Zone")
	one.NodeLabel("acme.io/rack")
	one.NodeLabels("acme.io/")
	one.NodeLabels("acme.io/x")
	one.Node(NodeTaints, NodeName, NodeTaints)
	one.PodsBy(ByOwner())
	one.PodsAndRequestsBy(ByLabel("b"))
	one.PodsBy(ByLabel("a"))
	one.PodsBy(ByLabel("b"))
	two.PodsBy(ByLabel("a"))
	two.PodsAndRequestsBy(ByLabel("b"))
	two.PodsBy(ByOwner())
	two.Node(NodeName, NodeTaints)
	two.NodeLabels("acme.io/")
	two.NodeLabel("Zone")
	two.NodeLabel("zone")
	a, b := newLayout(&one, verbFilter), newLayout(&two, verbFilter)
	if !proto.Equal(a.message, b.message) || a.table != b.table {
		t.Errorf("%v is not %v", a.message, b.message)
	}
	want := &v1beta1.NodeReads{
		Parts:  []v1beta1.NodePart{v1beta1.NodePart_NODE_PART_TAINTS, v1beta1.NodePart_NODE_PART_NAME},
		Labels: &v1beta1.MapReads{Keys: []string{"Zone", "zone"}, Prefixes: []string{"acme.io/"}},
		PodCounts: []*v1beta1.PodCountReads{
			{By: v1beta1.PodCountBy_POD_COUNT_BY_OWNER},
			{By: v1beta1.PodCountBy_POD_COUNT_BY_LABEL, Label: "a"},
			{By: v1beta1.PodCountBy_POD_COUNT_BY_LABEL, Label: "b", Requests: true},
		},
	}
	if !proto.Equal(a.rows, want) {
		t.Errorf("%v; want %v", a.rows, want)
	}
}

// A gateway makes Call.reads of the bytes of the handshake, and knows nothing of what they mean.
func TestADeclarationIsNamedByItsBytesInTheHandshake(t *testing.T) {
	var nothing, some, more Reads
	some.NodeLabel("zone")
	some.Pod(PodRequests)
	more.NodeLabel("zone")
	more.Pod(PodRequests)
	more.PodsByTopology(ByLabel("app"), "zone")
	named := map[string]bool{}
	for _, reads := range []*Reads{nil, &nothing, &some, &more} {
		p := filters(Filter{Node: node, Reads: reads})
		d, err := declare(&p)
		if err != nil {
			t.Fatal(err)
		}
		inHandshake, err := proto.Marshal(d.response.GetVerbs()[0].GetReads())
		digest := sha256.Sum256(inHandshake)
		if got := d.verbs[verbFilter].digest; err != nil || got != string(digest[:]) {
			t.Errorf("%x, %v; want %x", got, err, digest)
		}
		whole, err := proto.Marshal(d.response)
		if err != nil || !bytes.Contains(whole, inHandshake) {
			t.Errorf("%x is not in %x, %v", inHandshake, whole, err)
		}
		named[string(digest[:])] = true
	}
	none := sha256.Sum256(nil)
	if len(named) != 3 || !named[string(none[:])] {
		t.Errorf("%d digests", len(named))
	}
}

func TestKeysReadByPositionAndByText(t *testing.T) {
	var reads Reads
	zone, arch := reads.NodeLabel("zone"), reads.NodeLabel("arch")
	rack := reads.NodeLabel("acme.io/rack")
	prefix := reads.NodeLabels("acme.io/")
	layout := newLayout(&reads, verbFilter)
	n := Node{access: layout.node, row: &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{
		Labels: &v1beta1.MapValues{Values: []string{"", "z1"}, Absent: []uint32{0}, Entries: map[string]string{"acme.io/rack": "r1"}},
	}}}
	for key, want := range map[NodeKey]string{zone: "z1 true", arch: " false", rack: "r1 true"} {
		value, has := n.Get(key)
		byText, hasByText := n.Label(key.key.text)
		if got := fmt.Sprint(value, " ", has); got != want || byText != value || has != hasByText {
			t.Errorf("%s is %s", key.key.text, got)
		}
	}
	for key, value := range n.Entries(prefix) {
		if key != "acme.io/rack" || value != "r1" {
			t.Errorf("%s=%s", key, value)
		}
	}
	// A key of another declaration is found by its text.
	var other Reads
	other.NodeLabel("first")
	if value, _ := n.Get(other.NodeLabel("zone")); value != "z1" {
		t.Errorf("zone is %q", value)
	}
	n.row.Facts.Labels.Absent = nil
	if value, has := n.Get(arch); value != "" || !has {
		t.Error("an empty value is not an absent one")
	}
}

func TestReadingWhatIsNotDeclaredPanics(t *testing.T) {
	var reads Reads
	reads.NodeLabels("acme.io/")
	l := newLayout(&reads, verbFilter)
	n := Node{access: l.node, row: &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{}}}
	p := podOrigin{ctx: context.Background(), access: l.pod}.view(&v1beta1.Pod{Facts: &v1beta1.PodFacts{}})
	var others Reads
	count, zones := others.PodsBy(ByOwner()), others.PodsByTopology(ByLabel("app"), "zone")
	for text, read := range map[string]func(){
		`label "zone" of the node is read and not declared; declare it with Reads.NodeLabel`:               func() { n.Label("zone") },
		`annotation "a" of the node is read and not declared; declare it with Reads.NodeAnnotation`:        func() { n.Annotation("a") },
		`labels of the node that begin with "" is read and not declared; declare it with Reads.NodeLabels`: func() { n.Labels() },
		`NodeTaints is read and not declared; declare it with Reads.Node(policy.NodeTaints)`:               func() { n.Taints() },
		`NodeName is read and not declared`:                                                        func() { n.Name() },
		`label "app" of the pod is read and not declared; declare it with Reads.PodLabel`:          func() { p.Label("app") },
		`PodRequests is read and not declared; declare it with Reads.Pod(policy.PodRequests)`:      func() { p.Requests() },
		`a count of pods is read and not declared; declare it with Reads.PodsBy(policy.ByOwner())`: func() { n.PodsLike(count, p) },
		`NodeUsage is read and not declared; declare it with Reads.Node(policy.NodeUsage)`:         func() { n.Usage() },
		`NodeRawJSON is read and not declared; declare it with Reads.Node(policy.NodeRawJSON)`:     func() { n.RawJSON() },
		`PodRawJSON is read and not declared; declare it with Reads.Pod(policy.PodRawJSON)`:        func() { p.RawJSON() },
		`Reads.PodsByTopology(policy.ByLabel("app"), "zone")`:                                      func() { p.PodsLike(zones) },
	} {
		func() {
			defer func() {
				if panicked, is := recover().(Undeclared); !is || !strings.Contains(panicked.Error(), text) {
					t.Errorf("%v lacks %q", panicked, text)
				}
			}()
			read()
		}()
	}
}

func TestTheDigestIsThatOfTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	of := func(content string) string {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return digestOf(path)
	}
	if first := of("a"); of("a") != first || of("b") == first || digestOf(path+"s") != "" {
		t.Errorf("%q, %q, %q", first, of("b"), digestOf(path+"s"))
	}
}
