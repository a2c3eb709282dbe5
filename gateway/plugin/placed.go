package plugin

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

// What is not yet told is bounded: a gateway that does not answer for long learns the rest from its watch of pods.
const (
	// maxChanges is the protocol's limit for a call.
	maxChanges     = 10_000
	maxChangeBytes = 16 << 20
	// tooLarge is the outcome of a call that is larger than the gateway's extender.maxRequestBytes.
	tooLarge = "too_large"
	// tellAfter is how long the gateway waits for changes that no call of Place brings: pods that are decided by answers that
	// are kept count for other callers, too.
	tellAfter = 50 * time.Millisecond
	// tellTimeout limits a call of Tell, for which the next call of Place waits.
	tellTimeout = time.Second
)

// placed is what the gateway is to be told of pods, usually with the next call of Place. All profiles share it. kube-scheduler makes one
// attempt at a time; pods are bound and given up meanwhile.
type placed struct {
	mu      sync.Mutex
	changes []*door.Change
	// bytes is the size of the changes.
	bytes int
	// removed is the number of changes that were there before the first one.
	removed uint64
	// podsAt is the greatest resource version of a pod that has left a node, and toldAt that of the latest answered call.
	podsAt, toldAt uint64
	// teller is that of any profile, nil if nobody tells what no call brings. isDue is whether it will.
	teller *gateway
	isDue  bool
	// turn is taken by a call that tells: a change that is told late, by another call, would undo what followed it.
	turn chan struct{}
}

func newPlaced() *placed { return &placed{turn: make(chan struct{}, 1)} }

// news is what is told with a call.
type news struct {
	changes []*door.Change
	// end is the number of changes up to the last one, since the start.
	end uint64
	// podsAt is 0 if there is nothing to wait for.
	podsAt uint64
}

func (p *placed) add(change *door.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes = append(p.changes, change)
	p.bytes += proto.Size(change)
	for len(p.changes) > maxChanges || p.bytes > maxChangeBytes {
		p.drop()
	}
	if p.teller != nil && !p.isDue {
		p.isDue = true
		time.AfterFunc(tellAfter, p.tellLate)
	}
}

// follow has this gateway tell what no call brings.
func (p *placed) follow(teller *gateway) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.teller = teller
}

// tellLate tells what no call of Place has told.
func (p *placed) tellLate() {
	p.mu.Lock()
	p.isDue = false
	teller := p.teller
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), tellTimeout)
	defer cancel()
	// What is not told now is with the next call.
	_ = p.tell(ctx, func(n news, options ...grpc.CallOption) error {
		if len(n.changes) == 0 {
			return nil
		}
		_, err := teller.client.Tell(ctx, &door.TellRequest{Changes: n.changes}, options...)
		return err
	})
}

// errOtherCall is no failure to get an answer, about which ignorable decides: the call was not made.
var errOtherCall = errors.New("the gateway has not answered the call before, which tells what has become of pods; it has too much to do")

// tell makes a call with the changes that are not told yet.
func (p *placed) tell(ctx context.Context, call func(news, ...grpc.CallOption) error) error {
	select {
	case p.turn <- struct{}{}:
	case <-ctx.Done():
		return errOtherCall
	}
	defer func() { <-p.turn }()
	var trailer metadata.MD
	n := p.news()
	err := call(n, grpc.Trailer(&trailer))
	if isTold(err, trailer) {
		p.told(n)
	}
	return err
}

// drop removes the oldest change. Calls may still read it.
func (p *placed) drop() {
	p.bytes -= proto.Size(p.changes[0])
	p.changes = p.changes[1:]
	p.removed++
}

func (p *placed) news() news {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := news{changes: p.changes[:len(p.changes):len(p.changes)], end: p.removed + uint64(len(p.changes))}
	if p.podsAt > p.toldAt {
		n.podsAt = p.podsAt
	}
	return n
}

// told is called after a call that has reached the gateway.
func (p *placed) told(n news) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.removed < n.end {
		p.drop()
	}
	p.toldAt = max(p.toldAt, n.podsAt)
}

// isTold reports whether the gateway has read what came with the call. With other errors of its own, such as that of an overload,
// it may not have; to be told again does no harm.
func isTold(err error, trailer metadata.MD) bool {
	switch status.Code(err) {
	case codes.OK:
		return true
	// Told again, what is too large or makes the gateway fail would do so with each call.
	case codes.Unavailable, codes.InvalidArgument, codes.Internal:
		return len(trailer.Get(outcomeTrailer)) > 0
	case codes.ResourceExhausted:
		return slices.Contains(trailer.Get(outcomeTrailer), tooLarge)
	}
	return false
}

// Reserve has the pod count on its node from the next call on, also one that was placed without policies.
func (p *Plugin) Reserve(ctx context.Context, state fwk.CycleState, _ *corev1.Pod, node string) (status *fwk.Status) {
	defer Recovered(ctx, "Reserve", &status)
	// The pod of the attempt: that of Reserve is on the node already.
	asked, err := stateOf[*attempt](state, attemptKey, "PreFilter")
	if err != nil {
		return nil
	}
	if encoded, err := asked.encoded(); err == nil {
		p.placed.add(&door.Change{Change: &door.Change_Assumed{Assumed: &door.Assumed{Pod: encoded, Node: node}}})
	}
	return nil
}

// Unreserve has the pod not count any more.
func (p *Plugin) Unreserve(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.placed.add(&door.Change{Change: &door.Change_Forgotten{Forgotten: string(pod.UID)}})
}

// PostBind has the pod count until the gateway's watch of pods says otherwise.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ string) {
	p.waiting.set(pod.UID, dependence{})
	p.placed.add(&door.Change{Change: &door.Change_Bound{Bound: string(pod.UID)}})
}

// afterPodLeft notes how far the gateway's watch of pods must have come before a pod is tried again because another has left its node.
// The object that a watch sends last has the resource version of its deletion.
func (p *Plugin) afterPodLeft(_ klog.Logger, pod *corev1.Pod, before, _ any) (fwk.QueueingHint, error) {
	if p.waiting.on(pod.UID).isRegardless {
		return fwk.QueueSkip, nil
	}
	if gone, isPod := before.(*corev1.Pod); isPod {
		p.placed.left(gone.ResourceVersion)
	}
	return fwk.Queue, nil
}

func (p *placed) left(version string) {
	at, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.podsAt = max(p.podsAt, at)
}
