package h2spec

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/certificates"
	"extender-gateway.io/tests/kube/controlplane"
)

// exceptions has the cases that do not pass: in each line the id, the result and the reason.
//
//go:embed exceptions.txt
var exceptions string

// exception is the result of a case that does not pass.
type exception struct{ result, reason string }

// varies is the result of a case that depends on which of two frames is sent first.
const varies = "varies"

// path is that of a verb.
const path = "/filter"

// patience is how long a case waits for a frame. Only cases that fail wait as long.
const patience = 2 * time.Second

func TestTheExtenderConforms(t *testing.T) {
	known := read(t)
	cases := run(t, gateway(t))
	var passed int
	for _, id := range slices.Sorted(maps.Keys(cases)) {
		result, expected := resultOf(cases[id]), "passed"
		if exception, ok := known[id]; ok {
			expected = exception.result
			t.Logf("%s (%s) %s: %s", id, cases[id].Desc, expected, exception.reason)
		}
		if result != expected && expected != varies {
			t.Errorf("%s (%s) %s, expected %s: %v", id, cases[id].Desc, result, expected, cases[id].Result.Error)
		}
		if result == "passed" {
			passed++
		}
		delete(known, id)
	}
	for _, id := range slices.Sorted(maps.Keys(known)) {
		t.Errorf("exceptions.txt has %s, which is not a case", id)
	}
	t.Logf("%d of %d cases passed", passed, len(cases))
	if passed < 100 {
		t.Errorf("only %d cases passed", passed)
	}
}

func resultOf(test *spec.TestCase) string {
	switch {
	case test.Result.Skipped:
		return "skipped"
	case test.Result.Failed:
		return "failed"
	default:
		return "passed"
	}
}

// read returns the exceptions by the ids of their cases.
func read(t *testing.T) map[string]exception {
	t.Helper()
	known := map[string]exception{}
	for line := range strings.Lines(exceptions) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(parts) != 3 || !slices.Contains([]string{"failed", "skipped", varies}, parts[1]) {
			t.Fatalf("exceptions.txt: expected an id, failed, skipped or varies, and a reason: %q", line)
		}
		known[parts[0]] = exception{result: parts[1], reason: parts[2]}
	}
	return known
}

// gateway is the address of a gateway with TLS. Its backend is not reachable, and no case needs it.
func gateway(t *testing.T) *net.TCPAddr {
	t.Helper()
	away := product.Backend{Name: "away", URL: "http://127.0.0.1:9", Filter: &product.Filter{}}
	config := product.NewConfig(nil, controlplane.FullObjects, []product.Backend{away})
	shown := certificates.In(t.TempDir(), "tls")
	if err := certificates.SelfSigned(shown, "gateway"); err != nil {
		t.Fatal(err)
	}
	config.Extender.TLS = &product.TLS{CertFile: shown.CertFile, KeyFile: shown.KeyFile}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	server, err := product.StartGateway(ctx, t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Kill(); err != nil {
			t.Error(err)
		}
	})
	address, err := net.ResolveTCPAddr("tcp", server.Address)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// run makes all cases, and returns them by their ids.
func run(t *testing.T, address *net.TCPAddr) map[string]*spec.TestCase {
	t.Helper()
	settings := &config.Config{
		Host: address.IP.String(), Port: address.Port, Path: path, Timeout: patience, MaxHeaderLen: 4000, TLS: true, Insecure: true,
	}
	cases := map[string]*spec.TestCase{}
	for _, group := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		group.Test(settings)
		collect(group, cases)
	}
	return cases
}

func collect(group *spec.TestGroup, cases map[string]*spec.TestCase) {
	for number, test := range append(slices.Clone(group.Tests), group.StrictTests...) {
		if test.Result != nil {
			cases[fmt.Sprintf("%s/%s", group.ID(), strconv.Itoa(number+1))] = test
		}
	}
	for _, inner := range group.Groups {
		collect(inner, cases)
	}
}
