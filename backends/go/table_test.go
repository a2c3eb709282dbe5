package policy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

// filling is a gateway's side of a table.
type fillingClient struct {
	t       *testing.T
	name    string
	version uint64
	reads   *v1beta1.NodeReads
	stream  grpc.BidiStreamingClient[v1beta1.SyncNodesRequest, v1beta1.SyncNodesResponse]
	end     context.CancelFunc
}

var tableNames = struct {
	sync.Mutex
	last uint64
}{last: 1000}

// fill opens a table for a verb with this declaration.
func (s *server) fill(reads *Reads) *fillingClient {
	s.t.Helper()
	ctx, cancel := context.WithCancel(within(s.t))
	stream, err := v1beta1.NewNodeTableServiceClient(s.ClientConn).SyncNodes(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	tableNames.Lock()
	defer tableNames.Unlock()
	tableNames.last++
	return &fillingClient{
		t: s.t, name: fmt.Sprintf("table %d", tableNames.last), stream: stream, end: cancel, reads: newLayout(reads, verbFilter).rows,
	}
}

// exchange sends a message with the next version.
func (f *fillingClient) exchange(message *v1beta1.SyncNodesRequest) error {
	f.t.Helper()
	f.version++
	message.Table, message.Version = f.name, f.version
	if f.version == 1 {
		message.Reads = f.reads
	}
	return f.send(message)
}

func (f *fillingClient) send(message *v1beta1.SyncNodesRequest) error {
	if err := f.stream.Send(message); err != nil {
		f.t.Log(err)
	}
	response, err := f.stream.Recv()
	if err == nil && response.GetApplied() != message.GetVersion() {
		f.t.Errorf("applied %d, not %d", response.GetApplied(), message.GetVersion())
	}
	return err
}

func (f *fillingClient) upsert(id uint32, row *v1beta1.NodeRow) {
	f.t.Helper()
	if err := f.exchange(&v1beta1.SyncNodesRequest{Upserts: []*v1beta1.TableEntry{{Id: id, Row: row}}}); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fillingClient) named(atLeast uint64, ids []uint32, rows ...*v1beta1.NodeRow) *v1beta1.Nodes {
	return &v1beta1.Nodes{Count: uint32(len(ids)), Form: &v1beta1.Nodes_Table{
		Table: &v1beta1.NodeRef{Table: f.name, AtLeast: atLeast, Ids: ids, Rows: rows},
	}}
}

// naming rejects each node with its name.
func naming() Policy {
	return Policy{Name: "naming", Version: "1", Filter: &Filter{Reads: Everything(), Node: func(_ Pod, node Node) Verdict {
		return Reject(node.Name())
	}}}
}

func (s *server) reasons(nodes *v1beta1.Nodes) (string, v1beta1.Miss) {
	s.t.Helper()
	response, err := s.Filter(within(s.t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: nodes})
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

func (s *server) expectReasons(nodes *v1beta1.Nodes, want string) {
	s.t.Helper()
	if got, miss := s.reasons(nodes); got != want || miss != 0 {
		s.t.Errorf("the nodes are %s (%v); want %s", got, miss, want)
	}
}

func TestATableEndsWhenItsClientIsGone(t *testing.T) {
	s := start(t, naming())
	table := s.fill(Everything())
	table.upsert(1, labeled("a", nil))
	table.upsert(2, labeled("b", nil))
	update := &v1beta1.SyncNodesRequest{
		Upserts: []*v1beta1.TableEntry{{Id: 1, Row: labeled("longer", nil)}}, Removed: []uint32{2, 2, 99},
	}
	if err := table.exchange(update); err != nil {
		t.Fatal(err)
	}
	tables := s.bound.service.tables
	held := tables.find(table.name)
	if held.bytes != held.rows[1].bytes || held.bytes != tables.used.Load() || len(held.rows) != 1 {
		t.Errorf("%d bytes are counted for %v", held.bytes, held.rows)
	}
	table.end()
	for range 200 {
		if tables.find(table.name) == nil && tables.used.Load() == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Errorf("the table is still there, or its bytes: %d", tables.used.Load())
}

func TestTablesAreLimited(t *testing.T) {
	s := start(t, naming())
	s.bound.service.tables.maxTables, s.bound.service.tables.maxBytes = 2, 100_000
	large := labeled("a", map[string]string{"text": string(make([]byte, 60_000))})
	one, two := s.fill(Everything()), s.fill(Everything())
	one.upsert(1, large)
	// Replacing a row takes no more.
	one.upsert(1, large)
	two.upsert(1, labeled("b", nil))
	three := s.fill(Everything())
	expect(t, three.exchange(&v1beta1.SyncNodesRequest{}), codes.ResourceExhausted, "this backend already holds 2 tables, the maximum")
	err := two.exchange(&v1beta1.SyncNodesRequest{Upserts: []*v1beta1.TableEntry{{Id: 2, Row: large}}})
	expect(t, err, codes.ResourceExhausted, "the rows of all tables would need more than 100000 bytes")
	s.expectReasons(one.named(1, []uint32{1}), "[a]")
}

func TestAMissIsNoAnswer(t *testing.T) {
	s := start(t, noArm())
	response, err := s.Filter(within(t), &v1beta1.FilterRequest{
		Call: call(), Pod: podMessage(), Nodes: &v1beta1.Nodes{Count: 1, Form: &v1beta1.Nodes_Table{
			Table: &v1beta1.NodeRef{Table: "elsewhere", AtLeast: 1, Ids: []uint32{1}},
		}},
	})
	want := &v1beta1.FilterResponse{Result: &v1beta1.Result{Outcome: &v1beta1.Result_Miss{Miss: v1beta1.Miss_MISS_TABLE_UNKNOWN}}}
	if err != nil || !proto.Equal(response, want) {
		t.Errorf("%v, %v; want %v", response, err, want)
	}
}

func TestATableHasAName(t *testing.T) {
	s := start(t, naming())
	for name, text := range map[string]string{
		"":                      "table is missing",
		strings.Repeat("a", 65): "table is no text of at most 64 bytes of printable ASCII",
		"line\n":                "printable ASCII",
		"ä":                     "printable ASCII",
	} {
		table := s.fill(Everything())
		table.name = name
		expect(t, table.exchange(&v1beta1.SyncNodesRequest{}), codes.InvalidArgument, text)
	}
	table := s.fill(Everything())
	table.name = strings.Repeat("~", 64)
	table.upsert(1, labeled("a", nil))
	s.expectReasons(table.named(1, []uint32{1}), "[a]")
	table.name = "other"
	expect(t, table.exchange(&v1beta1.SyncNodesRequest{}), codes.InvalidArgument, "it is the same in all messages of a stream")
}

func TestATableSaysWhatItsRowsContain(t *testing.T) {
	s := start(t, naming())
	long := strings.Repeat("k", 318)
	for text, reads := range map[string]*v1beta1.NodeReads{
		"reads is missing; the first message says what the rows contain":        nil,
		"reads has 65 parts; expected at most 64":                               {Parts: make([]v1beta1.NodePart, 65)},
		"reads has 9 pod_counts; expected at most 8":                            {PodCounts: make([]*v1beta1.PodCountReads, 9)},
		"reads has a key or prefix of 318 bytes; expected at most 317":          {Labels: &v1beta1.MapReads{Prefixes: []string{long}}},
		"reads has 1001 keys and prefixes; expected at most 1000":               {Annotations: &v1beta1.MapReads{Keys: make([]string, 1001)}},
		"upserts[0].row.name is missing; reads of the table has it":             {Everything: true},
		"upserts[0].row.facts is missing; reads of the table has more than the": {Parts: []v1beta1.NodePart{v1beta1.NodePart_NODE_PART_USAGE}},
		"upserts[0].row.facts.labels.values has 0 values, and 1 keys are":       {Labels: &v1beta1.MapReads{Keys: []string{"zone"}}},
	} {
		row := &v1beta1.NodeRow{Usage: &v1beta1.NodeUsage{}}
		if len(reads.GetParts()) != 1 {
			row.Facts = &v1beta1.NodeFacts{}
		}
		table := s.fill(nil)
		table.reads = reads
		err := table.exchange(&v1beta1.SyncNodesRequest{Upserts: []*v1beta1.TableEntry{{Id: 1, Row: row}}})
		expect(t, err, codes.InvalidArgument, text)
	}
}

func TestNominatedPodsComeWithRowsOfEitherForm(t *testing.T) {
	var reads Reads
	reads.Node(NodeNominated)
	s := start(t, filters(Filter{Reads: &reads, Node: func(_ Pod, node Node) Verdict {
		return Reject(fmt.Sprint("nominated: ", node.Nominated().GetRequested().GetPods()))
	}}))
	row := func(pods int64) *v1beta1.NodeRow {
		return &v1beta1.NodeRow{Facts: &v1beta1.NodeFacts{}, Nominated: &Usage{Requested: &Resources{Pods: pods}}}
	}
	table := s.fill(&reads)
	table.upsert(1, row(3))
	response, err := s.Filter(within(t), &v1beta1.FilterRequest{
		Call: callFor(&reads, verbFilter), Pod: podMessage(), Nodes: table.named(1, []uint32{1, 0}, row(4)),
	})
	if got := response.GetRejections(); err != nil || len(got) != 2 || got[0].GetReason()+got[1].GetReason() != "nominated: 3nominated: 4" {
		t.Errorf("%v, %v", response, err)
	}
}

// A table whose rows have something else is as good as none, also one that has more.
func TestATableIsForOneDeclaration(t *testing.T) {
	s := start(t, naming())
	var name Reads
	name.Node(NodeName)
	withUsage := Everything()
	withUsage.Node(NodeUsage)
	for reads, held := range map[*Reads]bool{Everything(): true, withUsage: false, &name: false, nil: false} {
		table := s.fill(reads)
		table.upsert(1, labeled("a", nil))
		if _, miss := s.reasons(table.named(1, []uint32{1})); (miss == 0) != held || !held && miss != v1beta1.Miss_MISS_TABLE_UNKNOWN {
			t.Errorf("%v: %v", table.reads, miss)
		}
	}
}
