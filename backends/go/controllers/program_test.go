package controllers

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
)

// program is a backend on a real socket, with a Lease of an apiserver over HTTP.
type program struct {
	t    *testing.T
	stop context.CancelFunc
	// ended has what Serve returned.
	ended  chan error
	info   v1beta1.PolicyServiceClient
	health grpc.ServerStreamingClient[healthpb.HealthCheckResponse]
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func start(t *testing.T, identity string, run func(context.Context) error) *program {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	elected, err := New(Config{
		Lease: "quota-backend", Identity: identity, Controllers: []Controller{{Name: "quotas", Run: run}}, Logger: logger,
		LeaseDuration: 20 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	accept := func(policy.Pod, policy.Node) policy.Verdict { return policy.Accept() }
	quotas := policy.Policy{Name: "quotas", Version: "1", Filter: &policy.Filter{Node: accept}}
	p := &program{t: t, ended: make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	p.stop = stop
	t.Cleanup(stop)
	lines, stdout := io.Pipe()
	go func() {
		p.ended <- policy.Serve(ctx, quotas, policy.Options{Stdout: stdout, Logger: logger, Controllers: elected})
	}()
	line, err := bufio.NewReader(lines).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	p.connect(strings.TrimSpace(strings.TrimPrefix(line, "listening on ")))
	return p
}

func (p *program) connect(address string) {
	p.t.Helper()
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = connection.Close() })
	p.info = v1beta1.NewPolicyServiceClient(connection)
	p.health, err = healthpb.NewHealthClient(connection).Watch(within(p.t), &healthpb.HealthCheckRequest{Service: policy.ControllersHealth})
	if err != nil {
		p.t.Fatal(err)
	}
}

// expectHealth waits for it.
func (p *program) expectHealth(want healthpb.HealthCheckResponse_ServingStatus) {
	p.t.Helper()
	for {
		news, err := p.health.Recv()
		if err != nil {
			p.t.Fatalf("%v; want %v", err, want)
		}
		if news.GetStatus() == want {
			return
		}
	}
}

func (p *program) expectLeader(leader string) {
	p.t.Helper()
	for {
		info, err := p.info.GetInfo(within(p.t), &v1beta1.GetInfoRequest{})
		if err != nil {
			p.t.Fatal(err)
		}
		if shown := info.GetControllers(); shown.GetLeader() == leader {
			if shown.GetLease() != "shop/quota-backend" || strings.Join(shown.GetNames(), " ") != "quotas" || shown.GetIdentity() == "" {
				p.t.Errorf("%v", shown)
			}
			return
		}
	}
}

func TestTheHandshakeAndHealthNameTheLeader(t *testing.T) {
	leases := newLeases()
	apiserver := httptest.NewServer(leases)
	defer apiserver.Close()
	t.Setenv("KUBECONFIG", kubeconfig(t, apiserver.URL))
	fail := make(chan error)
	a := start(t, "a", func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return nil
		case err := <-fail:
			return err
		}
	})
	a.expectHealth(healthpb.HealthCheckResponse_SERVING)
	a.expectLeader("a")
	b := start(t, "b", untilStopped)
	b.expectHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	b.expectLeader("a")

	fail <- errors.New("no such resource")
	a.expectHealth(healthpb.HealthCheckResponse_NOT_SERVING)
	if err := <-a.ended; err == nil || err.Error() != "the controllers failed: controller quotas: no such resource" {
		t.Error(err)
	}
	b.expectHealth(healthpb.HealthCheckResponse_SERVING)
	b.expectLeader("b")
	b.stop()
	if err := <-b.ended; err != nil {
		t.Error(err)
	}
	if holder, transitions := leases.holder("quota-backend"); holder != "" || transitions != 1 {
		t.Errorf("the Lease is held by %q after %d transitions", holder, transitions)
	}
}
