package policy

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

// ControllersHealth is the service whose health says where a backend's controllers run: SERVING in the replica that runs
// them, NOT_SERVING in the others.
const ControllersHealth = apiVersion + ".Controllers"

// Controllers are those of a backend, which one of its replicas runs at a time. Every replica answers calls, whoever runs
// them. Module extender-gateway.io/policy/controllers has those whose replica holds a Lease of Kubernetes.
type Controllers interface {
	// State is what the handshake says of them. It is called for each handshake, from several goroutines.
	State() ControllersState
	// Run takes part in the election, and runs the controllers while this replica is the leader. It calls leads with true
	// before they start, and with false when they are to stop. It returns nil after ctx has ended and all of them have
	// stopped; an error ends the program.
	Run(ctx context.Context, leads func(bool)) error
}

// ControllersState is who runs the controllers of a backend.
type ControllersState struct {
	// Names are theirs: at least one and at most 32, of 1 to 63 bytes each.
	Names []string
	// Lease is NAMESPACE/NAME.
	Lease string
	// Identity is this replica's name as a holder of the Lease: 1 to 253 bytes.
	Identity string
	// Leader is the holder, as far as this replica knows, and Identity if this replica runs them. Empty: none, or not known.
	Leader string
}

func (s ControllersState) message() *v1beta1.Controllers {
	return &v1beta1.Controllers{
		Names: s.Names, Lease: s.Lease, Identity: s.Identity, Leader: cut(valid(s.Leader), limits.IdentityBytes),
	}
}

// Announce adds controllers to the handshake. For a program that has a gRPC server of its own, and so runs them and
// reports the health of [ControllersHealth] itself; [Serve] does all of this with Options.Controllers.
func (s *Service) Announce(controllers Controllers) { s.controllers = controllers }

// withControllers is the handshake with their state, which changes without the declaration.
func (s *Service) withControllers(response *v1beta1.GetInfoResponse) *v1beta1.GetInfoResponse {
	if s.controllers == nil {
		return response
	}
	response = proto.CloneOf(response)
	response.Controllers = s.controllers.State().message()
	return response
}

// running are controllers in the program that serves.
type running struct {
	stop  context.CancelFunc
	ended <-chan error
}

// runControllers starts them. Without any they never end.
func (s *Service) runControllers(status *health.Server) running {
	controllers := s.controllers
	if controllers == nil {
		return running{stop: func() {}}
	}
	leads := func(leads bool) {
		serving := healthpb.HealthCheckResponse_NOT_SERVING
		if leads {
			serving = healthpb.HealthCheckResponse_SERVING
		}
		status.SetServingStatus(ControllersHealth, serving)
		s.leads.Store(leads)
	}
	leads(false)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- endOf(ctx, controllers.Run(ctx, leads)) }()
	return running{stop: stop, ended: ended}
}

var errControllersEnded = errors.New("they ended by themselves; expected them to run until the program stops")

func endOf(ctx context.Context, err error) error {
	if err == nil && ctx.Err() == nil {
		err = errControllersEnded
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("the controllers failed: %w", err)
}

// wait stops the controllers, and waits until they have stopped.
func (r running) wait() error {
	r.stop()
	if r.ended == nil {
		return nil
	}
	return <-r.ended
}
