package policy

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1alpha1"
)

// filling is a gateway's side of a table.
type fillingClient struct {
	t       *testing.T
	name    uint64
	version uint64
	view    *v1alpha1.TableView
	stream  grpc.BidiStreamingClient[v1alpha1.SyncNodesRequest, v1alpha1.SyncNodesResponse]
	end     context.CancelFunc
}

var tableNames = struct {
	sync.Mutex
	last uint64
}{last: 1000}

func (s *server) fill(view v1alpha1.NodeView, reads *v1alpha1.NodeReads) *fillingClient {
	s.t.Helper()
	ctx, cancel := context.WithCancel(within(s.t))
	stream, err := v1alpha1.NewNodeTableServiceClient(s.ClientConn).SyncNodes(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	tableNames.Lock()
	defer tableNames.Unlock()
	tableNames.last++
	return &fillingClient{
		t: s.t, name: tableNames.last, stream: stream, end: cancel, view: &v1alpha1.TableView{NodeView: view, Reads: reads},
	}
}

// exchange sends a message with the next version.
func (f *fillingClient) exchange(message *v1alpha1.SyncNodesRequest) error {
	f.t.Helper()
	f.version++
	message.Table, message.Version = f.name, f.version
	if f.version == 1 {
		message.View = f.view
	}
	return f.send(message)
}

func (f *fillingClient) send(message *v1alpha1.SyncNodesRequest) error {
	if err := f.stream.Send(message); err != nil {
		f.t.Log(err)
	}
	response, err := f.stream.Recv()
	if err == nil && response.GetApplied() != message.GetVersion() {
		f.t.Errorf("applied %d, not %d", response.GetApplied(), message.GetVersion())
	}
	return err
}

func (f *fillingClient) upsert(id uint32, row *v1alpha1.NodeRow) {
	f.t.Helper()
	if err := f.exchange(&v1alpha1.SyncNodesRequest{Upserts: []*v1alpha1.TableEntry{{Id: id, Row: row}}}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fillingClient) named(atLeast uint64, ids []uint32, rows ...*v1alpha1.NodeRow) *v1alpha1.Nodes {
	return &v1alpha1.Nodes{Count: uint32(len(ids)), Form: &v1alpha1.Nodes_Table{
		Table: &v1alpha1.NodeRef{Table: f.name, AtLeast: atLeast, Ids: ids, Rows: rows},
	}}
}

// naming rejects each node with its name.
func naming() Policy {
	return Policy{Name: "naming", Version: "1", Filter: &Filter{Node: func(_ Pod, node Node) Verdict { return Reject(node.Name()) }}}
}

func (s *server) reasons(nodes *v1alpha1.Nodes) (string, v1alpha1.Miss) {
	s.t.Helper()
	response, err := s.Filter(within(s.t), &v1alpha1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: nodes})
	if err != nil {
		s.t.Error(err)
		return "", 0
	}
	reasons := make([]string, nodes.GetCount())
	for _, rejection := range response.GetRejections() {
		for _, position := range rejection.GetPositions() {
			reasons[position] = rejection.GetReason()
		}
	}
	return fmt.Sprint(reasons), response.GetResult().GetMiss()
}

func (s *server) expectReasons(nodes *v1alpha1.Nodes, want string) {
	s.t.Helper()
	if got, miss := s.reasons(nodes); got != want || miss != 0 {
		s.t.Errorf("the nodes are %s (%v); want %s", got, miss, want)
	}
}

func (s *server) expectMiss(nodes *v1alpha1.Nodes, want v1alpha1.Miss) {
	s.t.Helper()
	if _, miss := s.reasons(nodes); miss != want {
		s.t.Errorf("the miss is %v; want %v", miss, want)
	}
}

func TestCallsNameNodesOfATable(t *testing.T) {
	s := start(t, naming())
	table := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
	s.expectMiss(table.named(0, []uint32{1}), v1alpha1.Miss_MISS_TABLE_UNKNOWN)
	table.upsert(1, labeled("a", nil))
	table.upsert(2, labeled("b", nil))
	s.expectReasons(table.named(2, []uint32{2, 0, 1, 0}, labeled("x", nil), labeled("y", nil)), "[b x a y]")
	s.expectMiss(table.named(3, []uint32{1}), v1alpha1.Miss_MISS_TABLE_BEHIND)
	s.expectMiss(table.named(1, []uint32{3}), v1alpha1.Miss_MISS_TABLE_BEHIND)
	// The later of two upserts counts, and removals come after upserts.
	err := table.exchange(&v1alpha1.SyncNodesRequest{
		Upserts: []*v1alpha1.TableEntry{{Id: 1, Row: labeled("A", nil)}, {Id: 1, Row: labeled("AA", nil)}, {Id: 4, Row: labeled("d", nil)}},
		Removed: []uint32{2, 2, 4, 99}, Complete: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.expectReasons(table.named(3, []uint32{1}), "[AA]")
	s.expectMiss(table.named(3, []uint32{2}), v1alpha1.Miss_MISS_TABLE_BEHIND)
	s.expectMiss(table.named(3, []uint32{4}), v1alpha1.Miss_MISS_TABLE_BEHIND)
	held := s.bound.service.tables.find(table.name)
	if held.bytes != held.rows[1].bytes || len(held.rows) != 1 {
		t.Errorf("%d bytes are counted for %v", held.bytes, held.rows)
	}
	// The table ends with its stream.
	if err := table.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := table.stream.Recv(); err == nil {
		t.Fatal("the stream goes on")
	}
	s.expectMiss(table.named(3, []uint32{1}), v1alpha1.Miss_MISS_TABLE_UNKNOWN)
	if used := s.bound.service.tables.used.Load(); used != 0 {
		t.Errorf("%d bytes are in use without a table", used)
	}
}

func TestATableEndsWhenItsClientIsGone(t *testing.T) {
	s := start(t, naming())
	table := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
	table.upsert(1, labeled("a", nil))
	table.end()
	for range 200 {
		if s.bound.service.tables.find(table.name) == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the table is still there")
}

func TestAMessageThatBreaksARuleEndsTheStreamAndChangesNothing(t *testing.T) {
	s := start(t, naming())
	upsert := func(entry *v1alpha1.TableEntry) *v1alpha1.SyncNodesRequest {
		return &v1alpha1.SyncNodesRequest{Upserts: []*v1alpha1.TableEntry{{Id: 1, Row: labeled("new", nil)}, entry}}
	}
	for text, message := range map[string]*v1alpha1.SyncNodesRequest{
		"upserts[1].id is missing":                                 upsert(&v1alpha1.TableEntry{Row: labeled("x", nil)}),
		"upserts[1].row is missing":                                upsert(&v1alpha1.TableEntry{Id: 2}),
		"upserts[1].row.name is missing; the table's view has it":  upsert(&v1alpha1.TableEntry{Id: 2, Row: labeled("", nil)}),
		"upserts[1].row.facts is missing; the table's view has it": upsert(&v1alpha1.TableEntry{Id: 2, Row: &v1alpha1.NodeRow{Name: "x"}}),
		"upserts[1].row.facts.label_values has 1 values, and 0 keys are declared": upsert(&v1alpha1.TableEntry{
			Id: 2, Row: &v1alpha1.NodeRow{Name: "x", Facts: &v1alpha1.NodeFacts{LabelValues: []string{"v"}}},
		}),
		"upserts has an empty entry": upsert(&v1alpha1.TableEntry{}),
		"complete is set twice":      {Complete: true},
	} {
		table := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
		if err := table.exchange(&v1alpha1.SyncNodesRequest{Upserts: []*v1alpha1.TableEntry{{Id: 1, Row: labeled("old", nil)}}, Complete: true}); err != nil {
			t.Fatal(err)
		}
		held := s.bound.service.tables.find(table.name)
		expect(t, table.exchange(message), codes.InvalidArgument, text)
		if name := held.rows[1].message.GetName(); name != "old" {
			t.Errorf("%s: the row is %s", text, name)
		}
	}
	again := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
	again.upsert(1, labeled("a", nil))
	for text, message := range map[string]*v1alpha1.SyncNodesRequest{
		"table is missing":                                       {Version: 1, View: again.view},
		"view.node_view is missing or unknown":                   {Table: 5, Version: 1},
		"version is 0 and was 0":                                 {Table: 5, View: again.view},
		fmt.Sprintf("table %d already has a stream", again.name): {Table: again.name, Version: 1, View: again.view},
		"view.reads has 9 pod_counts": {Table: 5, Version: 1, View: &v1alpha1.TableView{
			NodeView: v1alpha1.NodeView_NODE_VIEW_FACTS, Reads: &v1alpha1.NodeReads{PodCounts: make([]*v1alpha1.PodCountReads, 9)},
		}},
	} {
		for position := range message.GetView().GetReads().GetPodCounts() {
			message.View.Reads.PodCounts[position] = &v1alpha1.PodCountReads{By: 1}
		}
		expect(t, s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil).send(message), codes.InvalidArgument, text)
	}
	expect(t, again.send(&v1alpha1.SyncNodesRequest{Table: again.name + 1, Version: 2}), codes.InvalidArgument, "it is the same in all messages")
	later := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
	later.upsert(1, labeled("a", nil))
	expect(t, later.send(&v1alpha1.SyncNodesRequest{Table: later.name, Version: 1}), codes.InvalidArgument, "version is 1 and was 1; it grows")
}

func TestATableOfAnotherDeclarationIsNotHeld(t *testing.T) {
	var reads Reads
	reads.NodeLabel("zone")
	reads.NodeLabel("arch")
	reads.NodeLabels("acme.io/x/")
	reads.NodeLabels("acme.io/")
	p := Policy{Name: "p", Version: "1", Filter: &Filter{Reads: &reads, Node: func(_ Pod, node Node) Verdict {
		zone, _ := node.Label("zone")
		return Reject(zone)
	}}}
	s := start(t, p)
	ask := func(table *fillingClient) (*v1alpha1.FilterResponse, error) {
		return s.Filter(within(t), &v1alpha1.FilterRequest{Call: s.reading(v1alpha1.Verb_VERB_FILTER), Pod: podMessage(), Nodes: table.named(1, []uint32{1})})
	}
	row := &v1alpha1.NodeRow{Facts: &v1alpha1.NodeFacts{LabelValues: []string{"amd64", "z1"}}}
	// The canonical form: keys and prefixes ascend, and no prefix begins with another one.
	same := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, &v1alpha1.NodeReads{
		Labels: &v1alpha1.MapReads{Keys: []string{"arch", "zone"}, Prefixes: []string{"acme.io/"}},
	})
	same.upsert(1, row)
	if response, err := ask(same); err != nil || response.GetRejections()[0].GetReason() != "z1" {
		t.Errorf("%v, %v", response, err)
	}
	other := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, &v1alpha1.NodeReads{Labels: &v1alpha1.MapReads{Keys: []string{"arch", "tier"}}})
	other.upsert(1, row)
	if response, err := ask(other); err != nil || response.GetResult().GetMiss() != v1alpha1.Miss_MISS_TABLE_UNKNOWN {
		t.Errorf("%v, %v", response, err)
	}
	everything := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
	everything.upsert(1, labeled("a", nil))
	if response, err := ask(everything); err != nil || response.GetResult().GetMiss() != v1alpha1.Miss_MISS_TABLE_UNKNOWN {
		t.Errorf("%v, %v", response, err)
	}
	names := start(t, naming())
	table := names.fill(v1alpha1.NodeView_NODE_VIEW_NAME, nil)
	table.upsert(1, &v1alpha1.NodeRow{Name: "a"})
	_, err := names.Filter(within(t), &v1alpha1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: table.named(1, []uint32{1})})
	expect(t, err, codes.InvalidArgument, "nodes.table is a table of ViewName, and this policy declares ViewFacts")
}

func TestTablesAreLimited(t *testing.T) {
	s := start(t, naming())
	s.bound.service.tables.maxTables, s.bound.service.tables.maxBytes = 2, 100_000
	large := labeled("a", map[string]string{"text": string(make([]byte, 60_000))})
	one, two := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil), s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
	one.upsert(1, large)
	// Replacing a row takes no more.
	one.upsert(1, large)
	two.upsert(1, labeled("b", nil))
	three := s.fill(v1alpha1.NodeView_NODE_VIEW_FACTS, nil)
	expect(t, three.exchange(&v1alpha1.SyncNodesRequest{}), codes.ResourceExhausted, "this backend already holds 2 tables, the maximum")
	err := two.exchange(&v1alpha1.SyncNodesRequest{Upserts: []*v1alpha1.TableEntry{{Id: 2, Row: large}}})
	expect(t, err, codes.ResourceExhausted, "the rows of all tables would need more than 100000 bytes")
	s.expectReasons(one.named(1, []uint32{1}), "[a]")
}
