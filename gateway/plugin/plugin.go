package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// Name is the plugin's name in profiles.
const Name = "ExtenderGateway"

// Plugin asks one gateway for a profile.
type Plugin struct {
	gateway *gateway
	lists   nodeLists
	placed  *placed
	kept    *kept
	walk    walk
	waiting waiting
	// ignored and unscored limit the log lines about pods that are placed without policies, and without their scores.
	ignored, unscored logLimit
	// twice is set once an extender turns out to be a gateway.
	twice atomic.Pointer[error]
	// stop ends what runs in the background.
	stop context.CancelFunc
}

var (
	_ fwk.PreFilterPlugin     = &Plugin{}
	_ fwk.PreFilterExtensions = &Plugin{}
	_ fwk.FilterPlugin        = &Plugin{}
	_ fwk.PostFilterPlugin    = &Plugin{}
	_ fwk.PreScorePlugin      = &Plugin{}
	_ fwk.ScorePlugin         = &Plugin{}
	_ fwk.ReservePlugin       = &Plugin{}
	_ fwk.BindPlugin          = &Plugin{}
	_ fwk.PostBindPlugin      = &Plugin{}
	_ fwk.EnqueueExtensions   = &Plugin{}
	_ fwk.SignPlugin          = &Plugin{}
)

// New makes the plugin of a profile. It does not connect: the gateway may start later than kube-scheduler.
func New(ctx context.Context, object runtime.Object, handle fwk.Handle) (*Plugin, error) {
	parsed, err := parseArgs(object)
	if err != nil {
		return nil, err
	}
	register()
	placed, err := instances.add(parsed.endpoint())
	if err != nil {
		return nil, err
	}
	gateway, err := newGateway(parsed, placed)
	if err != nil {
		instances.remove()
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	p := &Plugin{gateway: gateway, lists: newNodeLists(), placed: placed, kept: newKept(gateway), stop: stop}
	err = errors.Join(p.lists.follow(handle), p.refuseTwice(ctx, handle.Extenders()))
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// Name implements framework.Plugin.
func (p *Plugin) Name() string { return Name }

// Close is called by kube-scheduler when it stops.
func (p *Plugin) Close() error {
	p.stop()
	instances.remove()
	return p.gateway.connection.Close()
}

// instances are the plugins of this process. Two gateways would each lack the pods that the other one has placed.
var instances registry

// registry counts the plugins that use the process' only gateway.
type registry struct {
	mu       sync.Mutex
	endpoint string
	count    int
	// placed is of these plugins: pods of all profiles count for each of them.
	placed *placed
}

func (r *registry) add(endpoint string) (*placed, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count > 0 && r.endpoint != endpoint {
		return nil, fmt.Errorf("args of plugin %s: expected %s, as in another profile, not %s: all profiles of a kube-scheduler use one gateway",
			Name, r.endpoint, endpoint)
	}
	if r.count == 0 {
		r.endpoint, r.placed = endpoint, newPlaced()
	}
	r.count++
	return r.placed, nil
}

func (r *registry) remove() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count--
}
