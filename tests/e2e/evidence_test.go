package e2e

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/process"
)

// Exit codes of status; explain ends with noProblem or noGateway, too.
const (
	noProblem     = 0
	podsNotPlaced = 4
	noGateway     = 5
)

// evidence is what the product must show of a state.
type evidence struct {
	// exit is the exit code of status, and status are parts of what it prints.
	exit   int
	status []string
	// row is in a line of status, too; nil for any.
	row *regexp.Regexp
	// explainExit is the exit code of explain, and explain are parts of what it prints about a pod.
	explainExit int
	explain     []string
	metrics     []metric
	log         []logLine
}

// metric is a series and what its value must be.
type metric struct {
	series string
	is     func(float64) bool
}

// logLine is a line that has all parts, and how often it is in the log.
type logLine struct {
	times int
	parts []string
}

// atLeastOnce stands for the times of a line that is repeated while a state lasts.
const atLeastOnce = 0

func equals(want float64) func(float64) bool   { return func(got float64) bool { return got == want } }
func atLeast(least float64) func(float64) bool { return func(got float64) bool { return got >= least } }

// once is a line that is in the log once.
func once(parts ...string) logLine { return logLine{1, parts} }

// expectEvidence waits until the gateway, which has this admin address, shows all of it.
func (s *scenario) expectEvidence(gateway *process.Server, admin string, pod *corev1.Pod, want evidence) {
	s.Helper()
	s.expectStatus(admin, want.exit, want.status...)
	if want.row != nil {
		results.note(fmt.Sprintf("in status of %s: %s\n", s.Name(), s.statusWith(admin, want.row)[0]))
	}
	s.expectExplain(admin, pod, want.explainExit, want.explain...)
	for _, metric := range want.metrics {
		s.expectMetric(gateway, metric)
	}
	for _, line := range want.log {
		s.logged(gateway, line)
	}
}

// expectStatus waits until status prints all parts and ends with this code.
func (s *scenario) expectStatus(admin string, code int, parts ...string) {
	s.Helper()
	s.expectPrinted("status", code, parts, func(ctx context.Context) (string, int, error) { return product.Status(ctx, admin) })
}

// expectExplain waits until explain prints all parts about a pod and ends with this code.
func (s *scenario) expectExplain(admin string, pod *corev1.Pod, code int, parts ...string) {
	s.Helper()
	s.expectPrinted("explain", code, parts, func(ctx context.Context) (string, int, error) {
		return product.ExplainToPeople(ctx, shared.Kubeconfig, admin, pod)
	})
}

func (s *scenario) expectPrinted(what string, code int, parts []string, command func(context.Context) (text string, exit int, err error)) {
	s.Helper()
	var text string
	var exit int
	s.until(fmt.Sprintf("%s to end with %d and to say %q", what, code, parts), func(ctx context.Context) (bool, error) {
		var err error
		if text, exit, err = command(ctx); err != nil {
			return false, err
		}
		lacks := func(part string) bool { return !strings.Contains(text, part) }
		return exit == code && !slices.ContainsFunc(parts, lacks), nil
	}, func() string { return fmt.Sprintf("exit code %d\n%s", exit, text) })
	// The problems, or the summary and the notes.
	first, _, _ := strings.Cut(text, "\n\n")
	results.note(fmt.Sprintf("%s of %s:\n%s\n", what, s.Name(), first))
}

// expectMetric waits until a series of the gateway has such a value.
func (s *scenario) expectMetric(gateway *process.Server, want metric) {
	s.Helper()
	address, err := gateway.Line(s.ctx, "metrics listening on ")
	s.must(err)
	var value float64
	var found bool
	s.until("a value of "+want.series, func(ctx context.Context) (bool, error) {
		values, err := product.Metrics(ctx, address)
		value, found = values[want.series]
		return found && want.is(value), err
	}, func() string { return fmt.Sprintf("%v, which is in the page: %t", value, found) })
}

// logged waits until the log of a program has a line as often as it must, and expects no more of them.
func (s *scenario) logged(program *process.Server, want logLine) {
	s.Helper()
	var found []string
	s.until(fmt.Sprintf("%d lines with %q in %s", max(want.times, 1), want.parts, program.LogFile), func(context.Context) (bool, error) {
		log, err := os.ReadFile(program.LogFile)
		found = slices.DeleteFunc(strings.Split(string(log), "\n"), func(line string) bool {
			return slices.ContainsFunc(want.parts, func(part string) bool { return !strings.Contains(line, part) })
		})
		return len(found) >= max(want.times, 1), err
	}, func() string { return fmt.Sprintf("%q", found) })
	if want.times != atLeastOnce && len(found) != want.times {
		s.Errorf("%q was logged %d times: %q", want.parts, len(found), found)
	}
}
