package policy

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
)

// elected are controllers whose leader the test says.
type elected struct {
	leader  atomic.Value
	leads   chan bool
	fails   chan error
	stopped chan struct{}
}

func newElected() *elected {
	e := &elected{leads: make(chan bool), fails: make(chan error), stopped: make(chan struct{})}
	e.leader.Store("")
	return e
}

func (e *elected) State() ControllersState {
	return ControllersState{Names: []string{"quotas"}, Lease: "shop/quotas", Identity: "me", Leader: e.leader.Load().(string)}
}

func (e *elected) Run(ctx context.Context, leads func(bool)) error {
	defer close(e.stopped)
	for {
		select {
		case now := <-e.leads:
			leads(now)
		case err := <-e.fails:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

func watchHealth(s *server) func(healthpb.HealthCheckResponse_ServingStatus) {
	s.t.Helper()
	stream, err := healthpb.NewHealthClient(s.ClientConn).Watch(within(s.t), &healthpb.HealthCheckRequest{Service: "extender.policy.v1beta1.Controllers"})
	if err != nil {
		s.t.Fatal(err)
	}
	return func(want healthpb.HealthCheckResponse_ServingStatus) {
		s.t.Helper()
		for {
			news, err := stream.Recv()
			if err != nil {
				s.t.Fatalf("%v; want %v", err, want)
			}
			if news.GetStatus() == want {
				return
			}
		}
	}
}

func TestTheStateOfControllersIsShown(t *testing.T) {
	controllers := newElected()
	s := startWith(t, noArm(), Options{Controllers: controllers})
	expectHealth := watchHealth(s)
	expectHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	for _, leader := range []string{"", "other", "me"} {
		controllers.leader.Store(leader)
		info, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{})
		want := &v1beta1.Controllers{Names: []string{"quotas"}, Lease: "shop/quotas", Identity: "me", Leader: leader}
		if err != nil || !proto.Equal(info.GetControllers(), want) || info.GetName() != "no-arm" {
			t.Errorf("%v, %v", info, err)
		}
	}
	controllers.leader.Store(strings.Repeat("\xff", 300))
	if info, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{}); err != nil || len(info.GetControllers().GetLeader()) > 253 {
		t.Errorf("%v, %v", info, err)
	}
	controllers.leads <- true
	expectHealth(healthpb.HealthCheckResponse_SERVING)
	controllers.leads <- false
	expectHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	controllers.leads <- true
	expectHealth(healthpb.HealthCheckResponse_SERVING)
	s.stop()
	expectHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	<-controllers.stopped
}

func TestControllersStopWhileCallsFinish(t *testing.T) {
	began, mayEnd := make(chan struct{}), make(chan struct{})
	p := noArm()
	p.Filter.Node = func(Pod, Node) Verdict {
		close(began)
		<-mayEnd
		return Accept()
	}
	controllers := newElected()
	s := startWith(t, p, Options{Controllers: controllers})
	answered := make(chan error, 1)
	go func() {
		_, err := s.Filter(within(t), &v1beta1.FilterRequest{Call: call(), Pod: podMessage(), Nodes: inline(labeled("a", nil))})
		answered <- err
	}()
	<-began
	stopped := make(chan struct{})
	go func() {
		s.stop()
		close(stopped)
	}()
	<-controllers.stopped
	close(mayEnd)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	<-stopped
}

func TestABackendWithoutControllersSaysNothingOfThem(t *testing.T) {
	s := start(t, noArm())
	if info, err := s.GetInfo(within(t), &v1beta1.GetInfoRequest{}); err != nil || info.GetControllers() != nil {
		t.Errorf("%v, %v", info, err)
	}
	_, err := healthpb.NewHealthClient(s.ClientConn).Check(within(t), &healthpb.HealthCheckRequest{Service: ControllersHealth})
	expect(t, err, codes.NotFound, "")
}

func TestControllersThatEndEndTheProgram(t *testing.T) {
	for text, err := range map[string]error{
		"the controllers failed: no such resource":                                                       errors.New("no such resource"),
		"the controllers failed: they ended by themselves; expected them to run until the program stops": nil,
	} {
		controllers := newElected()
		bound, failed := listen(noArm(), Options{Controllers: controllers})
		if failed != nil {
			t.Fatal(failed)
		}
		ended := make(chan error, 1)
		go func() { ended <- bound.serve(context.Background()) }()
		controllers.fails <- err
		if got := <-ended; got == nil || got.Error() != text {
			t.Errorf("%v; want %s", got, text)
		}
	}
}
