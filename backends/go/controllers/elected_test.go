package controllers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordination "k8s.io/api/coordination/v1"
)

// world are the replicas of a backend and what they share. Its tests run on the clock of synctest, so they wait for
// nothing.
type world struct {
	t      *testing.T
	leases *leases
	mu     sync.Mutex
	// running are the replicas whose controllers run, by identity.
	running map[string]int64
	// together says that two ran at the same time.
	together bool
	tokens   []int64
}

func newWorld(t *testing.T) *world {
	return &world{t: t, leases: newLeases(), running: map[string]int64{}}
}

// replica is one of them.
type replica struct {
	world    *world
	identity string
	client   *client
	elected  *Elected
	stop     context.CancelFunc
	ended    chan error
	exited   chan int
	leads    []bool
	// fail ends the controller with an error, stubborn lets it go on when it is to stop.
	fail     chan error
	stubborn chan struct{}
}

func (w *world) start(identity string, change func(*replica, *Config)) *replica {
	w.t.Helper()
	r := &replica{
		world: w, identity: identity, client: &client{leases: w.leases},
		ended: make(chan error, 1), exited: make(chan int, 1), fail: make(chan error),
	}
	config := Config{
		Lease: "quota-backend", Namespace: "shop", Identity: identity, Leases: r.client,
		Controllers: []Controller{{Name: "quotas", Run: r.control}},
		Logger:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Exit:        func(code int) { r.exited <- code },
	}
	if change != nil {
		change(r, &config)
	}
	elected, err := New(config)
	if err != nil {
		w.t.Fatal(err)
	}
	r.elected = elected
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	go func() {
		r.ended <- elected.Run(ctx, func(leads bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			r.leads = append(r.leads, leads)
		})
	}()
	return r
}

func (r *replica) control(ctx context.Context) error {
	token, is := FencingToken(ctx)
	if !is {
		return errors.New("no token")
	}
	w := r.world
	w.mu.Lock()
	w.running[r.identity] = token
	w.together = w.together || len(w.running) > 1
	w.tokens = append(w.tokens, token)
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.running, r.identity)
	}()
	select {
	case <-ctx.Done():
		if r.stubborn != nil {
			<-r.stubborn
		}
		return ctx.Err()
	case err := <-r.fail:
		return err
	}
}

// pass lets time pass, and waits until all is done that is due by then: what happens in the same instant happens before what
// the test does next.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect waits until all is done that takes no time, and checks where the controllers run.
func (w *world) expect(running string) {
	w.t.Helper()
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	var names []string
	for name := range w.running {
		names = append(names, name)
	}
	if got := strings.Join(names, " "); got != running {
		w.t.Fatalf("the controllers run in %q; want %q", got, running)
	}
}

func (w *world) expectTokens(want ...int64) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if fmt.Sprint(w.tokens) != fmt.Sprint(want) || w.together {
		w.t.Errorf("the tokens are %v, together: %v; want %v", w.tokens, w.together, want)
	}
}

func (r *replica) expectState(leader string, leads ...bool) {
	r.world.t.Helper()
	r.world.mu.Lock()
	defer r.world.mu.Unlock()
	state := r.elected.State()
	if state.Leader != leader || state.Identity != r.identity || state.Lease != "shop/quota-backend" || fmt.Sprint(state.Names) != "[quotas]" {
		r.world.t.Errorf("%s: %+v; want the leader %q", r.identity, state, leader)
	}
	if fmt.Sprint(r.leads) != fmt.Sprint(leads) {
		r.world.t.Errorf("%s was told %v; want %v", r.identity, r.leads, leads)
	}
}

func (r *replica) expectEnd(text string) {
	r.world.t.Helper()
	r.stop()
	err := <-r.ended
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		r.world.t.Errorf("%s ended with %v; want %q", r.identity, err, text)
	}
}

func TestOneOfTwoReplicasLeadsAndTheOtherTakesOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.expect("a")
		b := w.start("b", nil)
		pass(time.Hour)
		w.expect("a")
		a.expectState("a", true)
		b.expectState("a")
		a.expectEnd("")
		if holder, _ := w.leases.holder("quota-backend"); holder != "" {
			t.Errorf("the Lease is not given up, but held by %s", holder)
		}
		pass(5 * time.Second)
		w.expect("b")
		a.expectState("", true, false)
		b.expectState("b", true)
		b.expectEnd("")
		w.expectTokens(0, 1)
	})
}

func TestAReplicaThatIsCutOffStopsBeforeTheOtherStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.expect("a")
		b := w.start("b", nil)
		pass(time.Minute)
		a.client.cut(true)
		pass(10 * time.Second)
		w.expect("")
		a.expectState("", true, false)
		// Until b saw the last renewal, the Lease expired and b tried again: twice its period with jitter, and the Lease.
		pass(14 * time.Second)
		w.expect("b")
		a.client.cut(false)
		pass(10 * time.Second)
		w.expect("b")
		a.expectState("b", true, false)
		b.expectEnd("")
		pass(5 * time.Second)
		w.expect("a")
		a.expectEnd("")
		w.expectTokens(0, 1, 2)
	})
}

func TestRequestsWithoutAnAnswerAreTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.expect("a")
		a.client.hang(true)
		pass(4 * time.Second)
		a.client.hang(false)
		pass(time.Minute)
		w.expect("a")
		a.expectState("a", true)
		// A read by the one that waits.
		b := w.start("b", func(r *replica, _ *Config) { r.client.hang(true) })
		pass(time.Second)
		b.client.hang(false)
		a.expectEnd("")
		pass(10 * time.Second)
		w.expect("b")
		b.expectEnd("")
	})
}

// The elector itself would find out after RenewDeadline.
func TestALeaseInOtherHandsEndsTheTermAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		pass(time.Minute)
		w.expect("a")
		w.leases.change("quota-backend", func(spec *coordination.LeaseSpec) {
			other, transitions := "other", *spec.LeaseTransitions+1
			spec.HolderIdentity, spec.LeaseTransitions = &other, &transitions
		})
		pass(3 * time.Second)
		w.expect("")
		a.expectState("other", true, false)
		// It expires.
		pass(20 * time.Second)
		w.expect("a")
		w.leases.remove("quota-backend")
		pass(3 * time.Second)
		a.expectState("a", true, false, true, false, true)
		a.expectEnd("")
		w.expectTokens(0, 2, 0)
	})
}

// Requests of the first term may still be on their way.
func TestEachTermOfOneProcessHasATokenOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.expect("a")
		a.client.cut(true)
		pass(time.Minute)
		w.expect("")
		a.client.cut(false)
		pass(10 * time.Second)
		w.expect("a")
		a.expectEnd("")
		// So has a process with the name of one that did not give up the Lease.
		w.leases.change("quota-backend", func(spec *coordination.LeaseSpec) {
			holder, seconds := "a", int32(15)
			spec.HolderIdentity, spec.LeaseDurationSeconds = &holder, &seconds
		})
		again := w.start("a", nil)
		pass(5 * time.Second)
		w.expect("a")
		again.expectEnd("")
		w.expectTokens(0, 1, 2)
	})
}

func TestAControllerThatDoesNotStopEndsTheProcess(t *testing.T) {
	// After how long the process ends, and how much of it the controllers had to stop. Followers wait for 15 s.
	for why, took := range map[string][2]time.Duration{
		"the Lease is lost":          {15 * time.Second, 5 * time.Second},
		"the Lease is taken":         {12 * time.Second, 10 * time.Second},
		"the process stops":          {10 * time.Second, 10 * time.Second},
		"the process stops, cut off": {7 * time.Second, 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a := w.start("a", func(r *replica, config *Config) {
				r.stubborn = make(chan struct{})
				config.Controllers = append(config.Controllers, Controller{Name: "other", Run: func(ctx context.Context) error {
					<-ctx.Done()
					return nil
				}})
			})
			w.expect("a")
			began := time.Now()
			switch why {
			case "the Lease is lost":
				a.client.cut(true)
			case "the Lease is taken":
				w.leases.change("quota-backend", func(spec *coordination.LeaseSpec) { *spec.HolderIdentity = "b" })
			case "the process stops, cut off":
				a.client.cut(true)
				pass(8 * time.Second)
				began = time.Now()
				a.stop()
			default:
				a.stop()
			}
			code := <-a.exited
			if after := time.Since(began); code != 1 || after != took[0] {
				t.Errorf("%s: exit code %d after %v", why, code, after)
			}
			a.expectEnd(fmt.Sprintf("controllers have not stopped within %v: quotas", took[1]))
			if holder, _ := w.leases.holder("quota-backend"); holder == "" {
				t.Errorf("%s: the Lease is given up, while a controller is running", why)
			}
			close(a.stubborn)
			w.expect("")
		})
	}
}

func TestTheLeaseIsHeldUntilTheControllersHaveStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", func(r *replica, config *Config) {
			r.stubborn, config.StopWithin = make(chan struct{}), time.Hour
		})
		w.expect("a")
		b := w.start("b", nil)
		a.stop()
		pass(10 * time.Minute)
		w.expect("a")
		close(a.stubborn)
		a.expectEnd("")
		pass(5 * time.Second)
		w.expect("b")
		b.expectEnd("")
		w.expectTokens(0, 1)
	})
}

func TestAControllerThatFailsEndsLeadershipAndTheProcess(t *testing.T) {
	for text, fail := range map[string]func(*replica, *Config){
		"controller quotas: no such resource": func(r *replica, _ *Config) {},
		"controller other: it panicked: as asked": func(r *replica, config *Config) {
			config.Controllers = append(config.Controllers, Controller{Name: "other", Run: func(context.Context) error {
				<-r.fail
				panic("as asked")
			}})
			config.Controllers[0].Run = func(ctx context.Context) error {
				<-ctx.Done()
				return nil
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			a := w.start("a", fail)
			synctest.Wait()
			b := w.start("b", nil)
			a.fail <- errors.New("no such resource")
			if err := <-a.ended; err == nil || err.Error() != text {
				t.Errorf("%v; want %q", err, text)
			}
			pass(5 * time.Second)
			w.expect("b")
			b.expectEnd("")
		})
	}
}

func TestAControllerThatIsDoneEndsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		done := false
		a := w.start("a", func(_ *replica, config *Config) {
			config.Controllers = append(config.Controllers, Controller{Name: "once", Run: func(context.Context) error {
				done = true
				return nil
			}})
		})
		pass(time.Minute)
		w.expect("a")
		if !done {
			t.Error("the second controller did not run")
		}
		a.expectEnd("")
	})
}

func TestAReplicaThatIsNotElectedStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.expect("a")
		b := w.start("b", nil)
		synctest.Wait()
		began := time.Now()
		b.expectEnd("")
		if took := time.Since(began); took > 0 {
			t.Errorf("it took %v", took)
		}
		b.client.cut(true)
		c := w.start("c", func(r *replica, _ *Config) { r.client.cut(true) })
		synctest.Wait()
		c.expectEnd("")
		a.expectState("a", true)
		a.expectEnd("")
	})
}

// The elector's own deadline begins with its next attempt.
func TestAReplicaThatIsCutOffStopsBeforeItsLeaseExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", func(r *replica, config *Config) {
			r.stubborn, config.StopWithin = make(chan struct{}), time.Hour
		})
		pass(time.Minute)
		lease, err := w.leases.get("quota-backend")
		if err != nil {
			t.Fatal(err)
		}
		a.client.hang(true)
		<-a.exited
		if left := time.Until(lease.Spec.RenewTime.Add(15 * time.Second)); left < 0 || left > time.Second {
			t.Errorf("the process ends %v before its Lease", left)
		}
		close(a.stubborn)
		a.expectEnd("controllers have not stopped within 5")
	})
}

// blocked is a log whose writer blocks at warnings.
type blocked struct {
	slog.Handler
	until chan struct{}
}

func (b blocked) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelWarn {
		<-b.until
	}
	return nil
}

func TestABlockedLogKeepsNoControllerRunning(t *testing.T) {
	for _, stubborn := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			log := blocked{Handler: slog.NewTextHandler(io.Discard, nil), until: make(chan struct{})}
			a := w.start("a", func(r *replica, config *Config) {
				config.Logger = slog.New(log)
				if stubborn {
					r.stubborn = make(chan struct{})
				}
			})
			w.expect("a")
			a.client.cut(true)
			if stubborn {
				<-a.exited
				close(a.stubborn)
			} else {
				pass(10 * time.Second)
			}
			w.expect("")
			close(log.until)
			a.stop()
			<-a.ended
		})
	}
}

func TestASecondProgramDoesNotRunTheSameControllers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.expect("a")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.elected.Run(ctx, func(bool) { t.Error("it leads") }); err == nil || !strings.Contains(err.Error(), "Run was called before") {
			t.Error(err)
		}
		a.expectEnd("")
		w.expectTokens(0)
	})
}

func TestALeaderThatIsNotSeenToRenewIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.start("a", nil)
		w.expect("a")
		b := w.start("b", nil)
		pass(time.Minute)
		b.expectState("a")
		b.client.cut(true)
		pass(10 * time.Second)
		b.expectState("a")
		pass(6 * time.Second)
		b.expectState("")
		b.client.cut(false)
		pass(5 * time.Second)
		b.expectState("a")
		b.expectEnd("")
		a.expectEnd("")
	})
}
