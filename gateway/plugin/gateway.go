package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	door "extender-gateway.io/plugin/internal/doorv1alpha1"
)

const (
	// maxMessageBytes has room for 100,000 nodes with their names or reasons.
	maxMessageBytes = 64 << 20
	// maxReconnectDelay bounds how long a gateway that is back stays unused.
	maxReconnectDelay = time.Second
	// pingInterval is gRPC's least. Within pingTimeout a ping is answered, and a packet acknowledged.
	pingInterval = 10 * time.Second
	pingTimeout  = 5 * time.Second
	// outcomeTrailer comes with each status of a gateway, and with none of gRPC itself.
	outcomeTrailer = "extender-outcome"
)

// gateway calls the gateway at its endpoint.
type gateway struct {
	args
	placed     *placed
	connection *grpc.ClientConn
	client     door.DoorServiceClient
}

// newGateway connects when the first call is made.
func newGateway(a args, told *placed) (*gateway, error) {
	options, err := a.transport()
	if err != nil {
		return nil, err
	}
	reconnect := backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxReconnectDelay}
	options = append(options,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: a.timeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessageBytes), grpc.MaxCallSendMsgSize(maxMessageBytes)),
		// The profile decides about failures; nothing is tried twice within a call.
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig())
	connection, err := grpc.NewClient("passthrough:///"+cmp.Or(a.address, "localhost"), options...)
	if err != nil {
		return nil, fmt.Errorf("plugin %s: connect to %s: %w", Name, a.endpoint(), err)
	}
	g := &gateway{args: a, placed: told, connection: connection, client: door.NewDoorServiceClient(connection)}
	told.follow(g)
	return g, nil
}

// transport is how the gateway is reached. The files of an address are read for the first time.
func (a args) transport() ([]grpc.DialOption, error) {
	dial := func(network, at string) grpc.DialOption {
		return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, at)
		})
	}
	if a.address == "" {
		// A dialer instead of a unix: target, in which some characters of paths have a meaning.
		return []grpc.DialOption{dial("unix", a.socket), grpc.WithTransportCredentials(insecure.NewCredentials())}, nil
	}
	first, err := a.tls.read()
	if err != nil {
		return nil, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	// Without pings, the connection to a machine that has disappeared would be used for a quarter of an hour.
	pings := grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingInterval, Timeout: pingTimeout})
	return []grpc.DialOption{dial("tcp", a.address), grpc.WithTransportCredentials(fileCredentials{first, a.tls}), pings}, nil
}

// place decides about these nodes of the list, as they are at this resource version or later, and tells what has become of pods.
func (g *gateway) place(ctx context.Context, pod []byte, list *nodeList, about span, nodesAt uint64) (*door.Placement, error) {
	return asked(g, ctx, list, about.bitSet(), func(ctx context.Context, nodes *door.Nodes, options ...grpc.CallOption) (*door.Placement, bool, error) {
		var response *door.PlaceResponse
		err := g.placed.tell(ctx, func(n news, more ...grpc.CallOption) (err error) {
			request := &door.PlaceRequest{Pod: pod, Nodes: nodes, Changes: n.changes, NodesAt: nodesAt, PodsAt: n.podsAt, Part: !about.isWhole()}
			response, err = g.client.Place(ctx, request, append(options, more...)...)
			return err
		})
		return response.GetPlacement(), response.GetUnknownList() != nil, err
	})
}

// score decides about the offered nodes of the list.
func (g *gateway) score(ctx context.Context, pod []byte, list *nodeList, offered []byte) (*door.Totals, error) {
	return asked(g, ctx, list, offered, func(ctx context.Context, nodes *door.Nodes, options ...grpc.CallOption) (*door.Totals, bool, error) {
		response, err := g.client.Score(ctx, &door.ScoreRequest{Pod: pod, Nodes: nodes}, options...)
		return response.GetTotals(), response.GetUnknownList() != nil, err
	})
}

// preempt is what an extender is asked, as JSON. ctx has a timeout.
func (g *gateway) preempt(ctx context.Context, args []byte) ([]byte, error) {
	defer observeCall(time.Now())
	var trailer metadata.MD
	response, err := g.client.Preempt(ctx, &door.PreemptRequest{Args: args}, grpc.Trailer(&trailer))
	if err != nil {
		return nil, g.failure(err, trailer, g.timeout)
	}
	return response.GetResult(), nil
}

// bind is what an extender is asked, as JSON. The gateway answers within this time.
func (g *gateway) bind(ctx context.Context, args []byte, within time.Duration) error {
	within += g.timeout
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var trailer metadata.MD
	if _, err := g.client.Bind(ctx, &door.BindRequest{Args: args}, grpc.Trailer(&trailer)); err != nil {
		return g.failure(err, trailer, within)
	}
	return nil
}

// asked makes a call with the list's id, and repeats it with names if the gateway does not hold the list, for example because it
// was restarted.
func asked[A any](g *gateway, ctx context.Context, list *nodeList, offered []byte,
	call func(context.Context, *door.Nodes, ...grpc.CallOption) (answer *A, unknownList bool, err error),
) (*A, error) {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	nodes := &door.Nodes{List: list.id, Offered: offered}
	for withNames := !list.known.Load(); ; withNames = true {
		if withNames {
			nodes.Names = list.names
		}
		var trailer metadata.MD
		answer, unknownList, err := call(ctx, nodes, grpc.Trailer(&trailer))
		switch {
		case err != nil:
			return nil, g.failure(err, trailer, g.timeout)
		case answer != nil:
			list.known.Store(true)
			return answer, nil
		case !unknownList:
			return nil, fmt.Errorf("the gateway at %s answers something that this plugin does not know: use plugin and gateway of neighboring minor versions", g.endpoint())
		case withNames:
			return nil, fmt.Errorf("the gateway at %s does not know a list of nodes that it was just sent", g.endpoint())
		}
		list.known.Store(false)
	}
}

// errNoGateway is the cause of errors for which args.ignorable decides.
var errNoGateway = errors.New("no gateway answers")

// failure separates what a gateway answers from failures to get an answer within this time.
func (g *gateway) failure(err error, trailer metadata.MD, within time.Duration) error {
	if errors.Is(err, errOtherCall) {
		return err
	}
	message := status.Convert(err).Message()
	switch status.Code(err) {
	case codes.Canceled:
		return err
	case codes.Unimplemented:
		return fmt.Errorf("%w at %s that this plugin can use (%s): upgrade the gateway before the plugin, and use neighboring minor versions", errNoGateway, g.endpoint(), message)
	case codes.DeadlineExceeded:
		return fmt.Errorf("%w at %s within %s: see the gateway's log, or raise timeout in the arguments of plugin %s", errNoGateway, g.endpoint(), within, Name)
	}
	if len(trailer.Get(outcomeTrailer)) > 0 {
		return errors.New(message)
	}
	if status.Code(err) == codes.ResourceExhausted {
		// gRPC's own limit, on this side.
		return fmt.Errorf("the gateway at %s cannot be asked: %s", g.endpoint(), message)
	}
	remedy := "start extender-gateway with this path as extender.socket"
	if g.address != "" {
		remedy = "see the gateway's log, and compare its extender.address and extender.tls with address and tls of the arguments"
	}
	return fmt.Errorf("%w at %s (%s): %s", errNoGateway, g.endpoint(), message, remedy)
}
