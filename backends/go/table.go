package policy

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
	"extender-gateway.io/policy/internal/size"
)

// Limits of all tables of a server together: 64 tables are enough for 16 gateways with four declarations each, and 15,000 nodes
// with their JSON are about 0.2 GB.
const (
	maxTables     = 64
	maxTableBytes = 1 << 30
	// rowOverheadBytes is the memory of a row besides its message: its place in the table.
	rowOverheadBytes = 128
)

// tables are the tables of nodes that gateways keep here, so that calls name nodes by numbers. A table belongs to its
// stream and is dropped with it; calls in progress keep the rows that they hold. It is found only by its random name, so
// several gateways, and several declarations of one gateway, never share one.
type tables struct {
	maxTables int
	maxBytes  int64
	used      atomic.Int64
	stopping  context.Context
	stop      context.CancelFunc

	mu     sync.RWMutex
	byName map[string]*table
}

// table is one table, which changes while calls read it.
type table struct {
	// What the rows contain: set when the table is opened. Reads is the encoded declaration.
	reads  string
	parts  rowParts
	counts valueCounts

	mu       sync.RWMutex
	version  uint64
	complete bool
	rows     map[uint32]row
	bytes    int64
}

type row struct {
	message *v1beta1.NodeRow
	bytes   int64
}

func newTables(maxTables int, maxBytes int64) *tables {
	t := &tables{maxTables: maxTables, maxBytes: maxBytes, byName: map[string]*table{}}
	t.stopping, t.stop = context.WithCancel(context.Background())
	return t
}

// find is the table of this name, if its stream is open; else nil.
func (t *tables) find(name string) *table {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.byName[name]
}

// size is how many tables there are, and how many nodes in all of them.
func (t *tables) size() (tables, nodes int) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, table := range t.byName {
		table.mu.RLock()
		nodes += len(table.rows)
		table.mu.RUnlock()
	}
	return len(t.byName), nodes
}

// open makes a table without rows for a stream.
func (t *tables) open(first *v1beta1.SyncNodesRequest) (*table, error) {
	if err := checkTableName(first.GetTable()); err != nil {
		return nil, err
	}
	opened, err := newTable(first.GetReads())
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byName[first.GetTable()] != nil {
		return nil, malformed("table %q already has a stream; names of tables must be random", first.GetTable())
	}
	if len(t.byName) >= t.maxTables {
		return nil, refusedFor(v1beta1.ErrorReason_ERROR_REASON_OVERLOADED, codes.ResourceExhausted, "this backend already holds %d tables, the maximum", t.maxTables)
	}
	t.byName[first.GetTable()] = opened
	return opened, nil
}

func checkTableName(name string) error {
	isHidden := func(r rune) bool { return r < ' ' || r > '~' }
	switch {
	case name == "":
		return malformed("table is missing; it is a random text, the same in all messages of a stream")
	case len(name) > limits.TableBytes || strings.ContainsFunc(name, isHidden):
		return malformed("table is no text of at most %d bytes of printable ASCII", limits.TableBytes)
	default:
		return nil
	}
}

// close drops a table. While the server is shutting down it stays for the calls that still arrive.
func (t *tables) close(name string) {
	if t.stopping.Err() != nil {
		return
	}
	t.mu.Lock()
	closed := t.byName[name]
	delete(t.byName, name)
	t.mu.Unlock()
	closed.mu.Lock()
	defer closed.mu.Unlock()
	t.used.Add(-closed.bytes)
	closed.bytes = 0
}

func newTable(reads *v1beta1.NodeReads) (*table, error) {
	if reads == nil {
		return nil, malformed("reads is missing; the first message says what the rows contain, if nothing")
	}
	if err := checkTableReads(reads); err != nil {
		return nil, err
	}
	return &table{rows: map[uint32]row{}, reads: string(encoded(reads)), parts: rowPartsOf(reads), counts: countsOf(reads)}, nil
}

// checkTableReads limits what a table keeps: no gateway sends more than it accepts from a backend.
func checkTableReads(reads *v1beta1.NodeReads) error {
	if count := len(reads.GetParts()); count > limits.ReadParts {
		return malformed("reads has %d parts; expected at most %d", count, limits.ReadParts)
	}
	if count := len(reads.GetPodCounts()); count > limits.ReadCounts {
		return malformed("reads has %d pod_counts; expected at most %d", count, limits.ReadCounts)
	}
	var keys, labels []string
	for _, m := range []*v1beta1.MapReads{reads.GetLabels(), reads.GetAnnotations()} {
		keys = append(append(keys, m.GetKeys()...), m.GetPrefixes()...)
	}
	for _, counts := range reads.GetPodCounts() {
		labels = append(labels, counts.GetLabel())
	}
	for _, key := range append(labels, keys...) {
		if len(key) > limits.KeyBytes {
			return malformed("reads has a key or prefix of %d bytes; expected at most %d", len(key), limits.KeyBytes)
		}
	}
	if len(keys) > limits.ReadKeys {
		return malformed("reads has %d keys and prefixes; expected at most %d", len(keys), limits.ReadKeys)
	}
	return nil
}

// SyncNodes fills a table and keeps it up to date.
func (s *Service) SyncNodes(stream grpc.BidiStreamingServer[v1beta1.SyncNodesRequest, v1beta1.SyncNodesResponse]) (err error) {
	defer func() { stream.SetTrailer(trailerOf(err)) }()
	messages := make(chan *frame)
	ended := make(chan error, 1)
	go func() {
		for {
			message := &frame{}
			if err := stream.RecvMsg(message); err != nil {
				ended <- err
				return
			}
			select {
			case messages <- message:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	filling := &filling{tables: s.tables}
	defer filling.end()
	for {
		select {
		case <-s.tables.stopping.Done():
			return statusOf(refused(codes.Unavailable, "this backend is shutting down"))
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case message := <-messages:
			applied, err := filling.apply(message)
			if err != nil {
				return statusOf(err)
			}
			if err := stream.Send(&v1beta1.SyncNodesResponse{Applied: applied}); err != nil {
				return err
			}
		}
	}
}

// filling applies the messages of a stream to its table.
type filling struct {
	tables *tables
	name   string
	table  *table
}

func (f *filling) end() {
	if f.table != nil {
		f.tables.close(f.name)
	}
}

// apply applies a message as a whole or not at all, and returns the table's new version.
func (f *filling) apply(encoded *frame) (uint64, error) {
	message := &v1beta1.SyncNodesRequest{}
	if err := encoded.decode(message); err != nil {
		return 0, err
	}
	if f.table == nil {
		opened, err := f.tables.open(message)
		if err != nil {
			return 0, err
		}
		f.name, f.table = message.GetTable(), opened
	}
	if err := f.check(message); err != nil {
		return 0, err
	}
	upserts, err := f.checked(message.GetUpserts())
	if err != nil {
		return 0, err
	}
	if err := f.change(message, upserts); err != nil {
		return 0, err
	}
	return message.GetVersion(), nil
}

// check looks at what no call reads, so that no lock is needed.
func (f *filling) check(message *v1beta1.SyncNodesRequest) error {
	switch {
	case message.GetTable() != f.name:
		return malformed("table is no longer %q; it is the same in all messages of a stream", f.name)
	case message.GetVersion() <= f.table.version:
		return malformed("version is %d and was %d; it grows with each message", message.GetVersion(), f.table.version)
	case message.GetComplete() && f.table.complete:
		return malformed("complete is set twice; set it in one message of a stream")
	default:
		return nil
	}
}

func (f *filling) checked(entries []*v1beta1.TableEntry) (map[uint32]row, error) {
	rows := make(map[uint32]row, len(entries))
	for position, entry := range entries {
		field := ""
		switch {
		case entry.GetId() == 0:
			field = "id"
		case entry.GetRow() == nil:
			field = "row"
		}
		if field != "" {
			return nil, malformed("upserts[%d].%s is missing; every entry has an id of at least 1 and a row", position, field)
		}
		if wrong := checkRow(entry.GetRow(), f.table.parts, f.table.counts, "reads of the table"); wrong != "" {
			return nil, malformed("upserts[%d].row%s", position, wrong)
		}
		rows[entry.GetId()] = row{message: entry.GetRow(), bytes: memoryOf(entry.GetRow())}
	}
	return rows, nil
}

// memoryOf estimates what a row takes.
func memoryOf(message *v1beta1.NodeRow) int64 {
	return int64(size.Of(message).Estimate(encoded(message)) + rowOverheadBytes)
}

// change makes all of the message visible at once. Upserts come before removals: a removed row does not come back.
func (f *filling) change(message *v1beta1.SyncNodesRequest, upserts map[uint32]row) error {
	t := f.table
	t.mu.Lock()
	defer t.mu.Unlock()
	removed := map[uint32]struct{}{}
	for _, id := range message.GetRemoved() {
		removed[id] = struct{}{}
		delete(upserts, id)
	}
	grown := int64(0)
	for id, upsert := range upserts {
		grown += upsert.bytes - t.rows[id].bytes
	}
	for id := range removed {
		grown -= t.rows[id].bytes
	}
	if used := f.tables.used.Add(grown); grown > 0 && used > f.tables.maxBytes {
		f.tables.used.Add(-grown)
		return refusedFor(v1beta1.ErrorReason_ERROR_REASON_OVERLOADED, codes.ResourceExhausted, "the rows of all tables would need more than %d bytes; more are refused", f.tables.maxBytes)
	}
	t.bytes += grown
	for id, upsert := range upserts {
		t.rows[id] = upsert
	}
	for id := range removed {
		delete(t.rows, id)
	}
	t.version = message.GetVersion()
	t.complete = t.complete || message.GetComplete()
	return nil
}

// read are the rows of a request at one version of the table; inline are those for the zeros. A row is never changed, so a
// call keeps what it has read, whatever happens to the table.
func (t *table) read(form *v1beta1.NodeRef) ([]*v1beta1.NodeRow, v1beta1.Miss) {
	rows := make([]*v1beta1.NodeRow, len(form.GetIds()))
	inline := form.GetRows()
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.version < form.GetAtLeast() {
		return nil, v1beta1.Miss_MISS_TABLE_BEHIND
	}
	for position, id := range form.GetIds() {
		if id == 0 {
			rows[position], inline = inline[0], inline[1:]
			continue
		}
		found, held := t.rows[id]
		if !held {
			return nil, v1beta1.Miss_MISS_TABLE_BEHIND
		}
		rows[position] = found.message
	}
	return rows, v1beta1.Miss_MISS_UNSPECIFIED
}
