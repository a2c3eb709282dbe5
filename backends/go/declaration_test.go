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
		{filters(Filter{Node: node, View: 7}), "filter has an unknown View or Scope"},
		{Policy{Name: "p", Version: "1", Bind: &Bind{}}, "bind has no function; set Bind.Pod"},
		{scores(Unbounded().Normalized(7)), "the normalization is unknown"},
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
	nodeReads := &v1beta1.Reads{Node: &v1beta1.NodeReads{Labels: &v1beta1.MapReads{Keys: []string{"zone"}}}}
	p := Policy{
		Name: "all", Version: "1", Revision: "r1", RejectedConfiguration: "line 7", RawPod: true, Annotations: []string{"acme.io/"},
		Filter: &Filter{Node: node, Pure: true, Usage: true, Reads: &reads},
		Score: &Score{
			Node: scoreNode, Scope: WholeSet, SideEffects: true, View: ViewFactsAndRaw, Usage: true,
			Scale: Between(-3, 7).Normalized(MinMax).Reversed(),
		},
		Preempt: &Preempt{
			Node: func(Pod, Candidate) Eviction { return Eviction{} }, Scope: WholeSet, SideEffects: true, View: ViewName, Usage: true,
		},
		Bind:         &Bind{Pod: func(context.Context, BindRequest) (BindResult, error) { return Bound(), nil }},
		BeforeFilter: &BeforeFilter{Pod: func(Pod) *PodChange { return nil }, Pure: true, Changes: allOfPod},
		BeforeFilterNodes: &BeforeFilterNodes{
			Nodes: func(context.Context, Pod, Nodes) []*NodeChange { return nil }, Usage: true, Reads: &reads,
			Changes: []ChangedPart{ChangedNodeTaints, ChangedNodeLabels, ChangedNodeTaints},
		},
		BeforeScore: &BeforeScore{
			Node: func(Pod, Node) *NodeChange { return nil }, Pure: true, View: ViewName, Changes: []ChangedPart{ChangedNodeUsage},
		},
		Introspection: []Page{{Path: "/quotas/:namespace", Description: "A quota", Show: show}, {Path: "/all", Show: show}},
	}
	d, err := declare(&p)
	if err != nil {
		t.Fatal(err)
	}
	want := &v1beta1.GetInfoResponse{
		Name: "all", Version: "1", Revision: "r1", ApiVersion: "extender.policy.v1beta1", RejectedConfiguration: "line 7",
		Services: []string{
			"extender.policy.v1beta1.NodeTableService", "extender.policy.v1beta1.HookService", "extender.policy.v1beta1.IntrospectionService",
		},
		PodRaw: true, AnnotationPrefixes: []string{"acme.io/"}, MaxRequestBytes: 64 << 20,
		Introspection: []*v1beta1.IntrospectionPath{{Path: "/quotas/:namespace", Description: "A quota"}, {Path: "/all"}},
		Verbs: []*v1beta1.VerbInfo{
			{
				Verb: v1beta1.Verb_VERB_FILTER, NodeView: v1beta1.NodeView_NODE_VIEW_FACTS, Scope: v1beta1.Scope_SCOPE_NODE,
				Effects: v1beta1.Effects_EFFECTS_PURE, Usage: true, Reads: nodeReads,
			},
			{
				Verb: v1beta1.Verb_VERB_SCORE, NodeView: v1beta1.NodeView_NODE_VIEW_FACTS_AND_RAW,
				Scope: v1beta1.Scope_SCOPE_WHOLE_SET, Effects: v1beta1.Effects_EFFECTS_CHANGES_OUTSIDE, Usage: true,
				ScoreMin: proto.Int32(-3), ScoreMax: proto.Int32(7),
				Normalization: v1beta1.Normalization_NORMALIZATION_MIN_MAX, Reversed: true,
			},
			{
				Verb: v1beta1.Verb_VERB_PREEMPT, NodeView: v1beta1.NodeView_NODE_VIEW_NAME, Scope: v1beta1.Scope_SCOPE_WHOLE_SET,
				Effects: v1beta1.Effects_EFFECTS_CHANGES_OUTSIDE, Usage: true,
			},
			{Verb: v1beta1.Verb_VERB_BIND},
			{
				Verb: v1beta1.Verb_VERB_BEFORE_FILTER, Scope: v1beta1.Scope_SCOPE_NODE, Effects: v1beta1.Effects_EFFECTS_PURE,
				Changes: []v1beta1.ChangedPart{1, 2, 3, 4, 5},
			},
			{
				Verb: v1beta1.Verb_VERB_BEFORE_FILTER_NODES, NodeView: v1beta1.NodeView_NODE_VIEW_FACTS,
				Scope: v1beta1.Scope_SCOPE_WHOLE_SET, Effects: v1beta1.Effects_EFFECTS_READS_OUTSIDE, Usage: true, Reads: nodeReads,
				Changes: []v1beta1.ChangedPart{
					v1beta1.ChangedPart_CHANGED_PART_NODE_LABELS, v1beta1.ChangedPart_CHANGED_PART_NODE_TAINTS,
				},
			},
			{
				Verb: v1beta1.Verb_VERB_BEFORE_SCORE, NodeView: v1beta1.NodeView_NODE_VIEW_NAME, Scope: v1beta1.Scope_SCOPE_NODE,
				Effects: v1beta1.Effects_EFFECTS_PURE, Changes: []v1beta1.ChangedPart{v1beta1.ChangedPart_CHANGED_PART_NODE_USAGE},
			},
		},
	}
	if !proto.Equal(d.response, want) {
		t.Errorf("%v; want %v", d.response, want)
	}
}

func TestNodesOfWhichNothingIsReadAreNames(t *testing.T) {
	var nothing, name Reads
	name.Node(NodeName)
	view := func(filter Filter) v1beta1.NodeView {
		p := filters(filter)
		d, err := declare(&p)
		if err != nil {
			t.Fatal(err)
		}
		return d.response.GetVerbs()[0].GetNodeView()
	}
	for _, c := range []struct {
		filter Filter
		view   v1beta1.NodeView
	}{
		{Filter{Node: node, Reads: &nothing}, v1beta1.NodeView_NODE_VIEW_NAME},
		{Filter{Node: node, Reads: &name}, v1beta1.NodeView_NODE_VIEW_NAME},
		{Filter{Node: node, Reads: &nothing, Usage: true}, v1beta1.NodeView_NODE_VIEW_FACTS},
		{Filter{Node: node, Reads: &nothing, View: ViewFactsAndRaw}, v1beta1.NodeView_NODE_VIEW_FACTS_AND_RAW},
		{Filter{Node: node}, v1beta1.NodeView_NODE_VIEW_FACTS},
	} {
		if got := view(c.filter); got != c.view {
			t.Errorf("%+v: %v, want %v", c.filter, got, c.view)
		}
	}
}

// The gateway rejects what a view of names does not have, so it must see that it is read.
func TestAViewOfNamesKeepsWhatElseIsReadOfNodes(t *testing.T) {
	var name, zone, owners Reads
	name.Node(NodeName)
	zone.NodeLabel("zone")
	owners.PodsBy(ByOwner())
	for reads, kept := range map[*Reads]bool{&name: false, &zone: true, &owners: true} {
		p := filters(Filter{Node: node, View: ViewName, Reads: reads})
		d, err := declare(&p)
		if err != nil {
			t.Fatal(err)
		}
		if sent := d.response.GetVerbs()[0].GetReads(); (sent.GetNode() != nil) != kept {
			t.Errorf("%v", sent)
		}
	}
	if named, facts := newLayout(&zone, ViewName), newLayout(&zone, ViewFacts); !proto.Equal(named.message, facts.message) {
		t.Errorf("%v is not %v", named.message, facts.message)
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
	a, b := newLayout(&one, ViewFacts), newLayout(&two, ViewFacts)
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
	for _, reads := range []*Reads{&nothing, &some, &more} {
		p := filters(Filter{Node: node, Reads: reads})
		d, err := declare(&p)
		if err != nil {
			t.Fatal(err)
		}
		inHandshake, err := proto.Marshal(d.response.GetVerbs()[0].GetReads())
		digest := sha256.Sum256(inHandshake)
		if got := d.verbs[verbFilter].reads(); err != nil || got != string(digest[:]) {
			t.Errorf("%x, %v; want %x", got, err, digest)
		}
		whole, err := proto.Marshal(d.response)
		if err != nil || !bytes.Contains(whole, inHandshake) {
			t.Errorf("%x is not in %x, %v", inHandshake, whole, err)
		}
		named[string(digest[:])] = true
	}
	if len(named) != 3 {
		t.Errorf("%d digests", len(named))
	}
}

func TestKeysReadByPositionAndByText(t *testing.T) {
	var reads Reads
	zone, arch := reads.NodeLabel("zone"), reads.NodeLabel("arch")
	rack := reads.NodeLabel("acme.io/rack")
	prefix := reads.NodeLabels("acme.io/")
	layout := newLayout(&reads, ViewFacts)
	n := Node{access: layout.node, row: &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{
		LabelValues: []string{"", "z1"}, AbsentLabels: []uint32{0}, Labels: map[string]string{"acme.io/rack": "r1"},
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
	n.row.Facts.LabelValues[0], n.row.Facts.AbsentLabels = "", nil
	if value, has := n.Get(arch); value != "" || !has {
		t.Error("an empty value is not an absent one")
	}
}

func TestReadingWhatIsNotDeclaredPanics(t *testing.T) {
	var reads Reads
	reads.NodeLabels("acme.io/")
	l := newLayout(&reads, ViewFacts)
	n := Node{access: l.node, row: &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{}}}
	p := podOrigin{ctx: context.Background(), access: l.pod}.view(&v1beta1.Pod{Facts: &v1beta1.PodFacts{}})
	var others Reads
	count, zones := others.PodsBy(ByOwner()), others.PodsByTopology(ByLabel("app"), "zone")
	undeclaredNode := Node{row: n.row}
	for text, read := range map[string]func(){
		`label "zone" of the node is read and not declared; declare it with Reads.NodeLabel`:               func() { n.Label("zone") },
		`annotation "a" of the node is read and not declared; declare it with Reads.NodeAnnotation`:        func() { n.Annotation("a") },
		`labels of the node that begin with "" is read and not declared; declare it with Reads.NodeLabels`: func() { n.Labels() },
		`NodeTaints is read and not declared; declare it with Reads.Node(policy.NodeTaints)`:               func() { n.Taints() },
		`NodeName is read and not declared`:                                                        func() { n.Name() },
		`label "app" of the pod is read and not declared; declare it with Reads.PodLabel`:          func() { p.Label("app") },
		`PodRequests is read and not declared; declare it with Reads.Pod(policy.PodRequests)`:      func() { p.Requests() },
		`a count of pods is read and not declared; declare it with Reads.PodsBy(policy.ByOwner())`: func() { n.PodsLike(count, p) },
		`declare it with Reads.PodsBy(policy.ByOwner()), and set the verb's Reads`:                 func() { undeclaredNode.PodsLike(count, p) },
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
