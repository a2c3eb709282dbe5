package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/policytest"
)

// maintained rejects the nodes of zone a from 2 to 4 o'clock. It is pure: what the time decides is in its revision.
func maintained(clock func() time.Time) policy.Policy {
	var reads policy.Reads
	zone := reads.NodeLabel("topology.kubernetes.io/zone")
	isClosed := func() bool { hour := clock().UTC().Hour(); return 2 <= hour && hour < 4 }
	closed := isClosed()
	filter := func(_ policy.Pod, node policy.Node) policy.Verdict {
		if value, _ := node.Get(zone); closed && value == "a" {
			return policy.Reject("zone is in maintenance")
		}
		return policy.Accept()
	}
	return policy.Policy{
		Name: "maintenance", Version: "1.0.0", Revision: fmt.Sprintf("1.0.0 closed=%v", closed),
		Current: func() *policy.Policy {
			if isClosed() == closed {
				return nil
			}
			newer := maintained(clock)
			return &newer
		},
		Filter: &policy.Filter{Pure: true, Reads: &reads, Node: filter},
	}
}

func TestAPolicyWithAClockReplacesItself(t *testing.T) {
	var now time.Time
	clock := func() time.Time { return now }
	node := policytest.NewNode("n").Label("topology.kubernetes.io/zone", "a")
	configured := policy.Configured(struct{}{}, func(struct{}) (policy.Policy, error) { return maintained(clock), nil })
	for _, source := range []policy.Source{maintained(clock), policytest.Everything(maintained(clock)), configured} {
		for hour, closed := range []bool{false, false, true, true, false} {
			now = time.Date(2026, 1, 1, hour, 0, 0, 0, time.UTC)
			rejected, err := policytest.Filter(source, policytest.NewPod("shop"), node)
			info, _ := policytest.Info(source)
			if want := fmt.Sprintf("1.0.0 closed=%v", closed); err != nil || len(rejected) == 1 != closed || info.GetRevision() != want {
				t.Errorf("at %d: %v, %v, %s; want %s", hour, rejected, err, info.GetRevision(), want)
			}
		}
	}
}

func TestTheRevisionIncludesTheProgram(t *testing.T) {
	for _, version := range []string{"1.0.0", strings.Repeat("1", 64)} {
		info, err := policytest.Info(policy.Policy{Name: "p", Version: version, Filter: maintained(time.Now).Filter})
		named, digest, _ := strings.Cut(info.GetRevision(), "+")
		if err != nil || len(digest) != 12 || !strings.HasPrefix(version, named) || len(info.GetRevision()) > 64 {
			t.Errorf("%q, %v", info.GetRevision(), err)
		}
	}
}

func TestAPolicyThatCannotNameANewerOneFailsThatCallAlone(t *testing.T) {
	var newer *policy.Policy
	first := maintained(time.Now)
	first.Revision, first.Current = "first", func() *policy.Policy { return newer }
	backend, _, err := policy.Replaceable(first)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		newer    *policy.Policy
		revision string
	}{{nil, "first"}, {&policy.Policy{Name: "p", Version: "1"}, ""}, {nil, "first"}, {&policy.Policy{Name: "p", Version: "1", Revision: "second", Filter: first.Filter}, "second"}} {
		newer = c.newer
		if info, err := policytest.Info(backend); info.GetRevision() != c.revision || (err != nil) != (c.revision == "") {
			t.Errorf("%q, %v; want %q", info.GetRevision(), err, c.revision)
		}
	}
}

func TestAPolicyThatIsReplacedWhileItNamesANewerOneStaysReplaced(t *testing.T) {
	var replacer *policy.Replacer
	revised := func(revision string) policy.Policy {
		return policy.Policy{Name: "p", Version: "1", Revision: revision, Filter: maintained(time.Now).Filter}
	}
	first, itself := revised("first"), revised("by itself")
	first.Current = func() *policy.Policy {
		if err := replacer.Replace(revised("by the program")); err != nil {
			t.Error(err)
		}
		return &itself
	}
	backend, replacer, err := policy.Replaceable(first)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := policytest.Info(backend); info.GetRevision() != "by the program" {
		t.Errorf("%q, %v", info.GetRevision(), err)
	}
}
