package controllers

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A process that was paused right after it was elected may start its controllers after it has read that another one leads.
func TestTheTokenIsThatOfTheTermAndNotOfTheNextLeader(t *testing.T) {
	stored := newLeases()
	config := Config{
		Lease: "quota-backend", Namespace: "shop", Identity: "a", Leases: &client{leases: stored}, RenewDeadline: time.Minute, Logger: slog.Default(),
	}
	var seen string
	lock := newLock(&config, func(record resourcelock.LeaderElectionRecord) { seen = record.HolderIdentity })
	if err := lock.Create(t.Context(), resourcelock.LeaderElectionRecord{HolderIdentity: "a", LeaderTransitions: 7}); err != nil {
		t.Fatal(err)
	}
	stored.change("quota-backend", func(spec *coordination.LeaseSpec) {
		other, transitions := "b", int32(8)
		spec.HolderIdentity, spec.LeaseTransitions = &other, &transitions
	})
	if _, _, err := lock.Get(t.Context()); !errors.Is(err, errTaken) {
		t.Errorf("%v; want %v", err, errTaken)
	}
	if token := lock.token.Load(); token != 7 || seen != "b" {
		t.Errorf("the token is %d, and the holder %q", token, seen)
	}
	<-lock.taken
	// Not even when the other one has given it up: the term is over.
	stored.change("quota-backend", func(spec *coordination.LeaseSpec) { *spec.HolderIdentity = "" })
	if _, _, err := lock.Get(t.Context()); !errors.Is(err, errTaken) {
		t.Errorf("%v; want %v", err, errTaken)
	}
}
