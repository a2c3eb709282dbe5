package observability

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEachExpressionHasSeries evaluates all expressions in a Prometheus that scrapes a gateway in use, until each has had a
// value. Those that are empty while all is well have one because of the troubles of the scene. A misspelt metric or label
// never has one.
func TestEachExpressionHasSeries(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	s := start(ctx, t)
	s.trouble()
	missing := map[string]string{}
	for round := 0; ; round++ {
		s.traffic()
		s.nextScrape()
		if round == 0 {
			missing = s.evaluable()
		}
		s.drop(missing)
		if len(missing) == 0 {
			t.Logf("all had a value after %d rounds", round+1)
			return
		}
		if round == mostRounds {
			for _, place := range slices.Sorted(maps.Keys(missing)) {
				t.Errorf("%s: no value in %d scrapes: %s", place, mostRounds, missing[place])
			}
			return
		}
	}
}

// mostRounds bounds the scrapes in which an expression may get its value. The slowest ones need kube-scheduler's second or
// third attempt to schedule a pod, which come after some seconds.
const mostRounds = 60

// evaluable are the parts of all expressions that must have a value, without variables, and what shows that the calls of the
// scene are made. By their places.
func (s *scene) evaluable() map[string]string {
	s.Helper()
	variables := s.variables()
	all := map[string]string{}
	for place, expr := range expressions(s.T) {
		parts, err := withoutThresholds(variables.Replace(expr))
		s.must(err)
		for i, part := range parts {
			all[fmt.Sprintf("%s, part %d", place, i+1)] = part
		}
	}
	maps.Copy(all, sceneIsReal)
	return all
}

var sceneIsReal = map[string]string{
	"scene: a pod is bound":                `extender_gateway_calls_total{verb="bind",outcome="ok"} > 0`,
	"scene: the canary disagrees":          `extender_gateway_backend_shadow_answers_total{backend="canary",outcome="disagrees"} > 0`,
	"scene: an error":                      `extender_gateway_backend_failures_total{backend="flaky",kind="status",policy="fail"} > 0`,
	"scene: a late answer":                 `extender_gateway_backend_failures_total{backend="flaky",kind="late",policy="fail"} > 0`,
	"scene: a backend that is away":        `extender_gateway_backend_failures_total{backend="away",policy="ignore"} > 0`,
	"scene: a pod that is rejected":        `extender_gateway_backend_waiting_pods{backend="quota"} > 0`,
	"scene: cached answers":                `extender_gateway_backend_known_nodes_total{backend="zones",source="remembered"} > 0`,
	"scene: a pod that cannot be requeued": `extender_gateway_requeued_pods_total{outcome="failed"} > 0`,
	"scene: a call that is refused":        `extender_gateway_calls_total{verb="filter",outcome="overload"} > 0`,
	"scene: an override":                   `extender_gateway_backend_override_end_timestamp_seconds{backend="zones",mode="Enforce"} > 0`,
	"scene: kube-scheduler's own failure":  `scheduler_schedule_attempts_total{result="error"} > 0`,
}

// drop removes the expressions that have a value now.
func (s *scene) drop(missing map[string]string) {
	s.Helper()
	for place, expr := range missing {
		series, err := s.prometheus.Query(s.ctx, expr)
		s.must(err)
		for _, it := range series {
			if it.Value != "NaN" {
				delete(missing, place)
			}
		}
	}
}

var labelValues = regexp.MustCompile(`^label_values\((.+), ([a-z_]+)\)$`)

// variables gives each variable of the dashboard the values that Grafana offers, and selects all of them.
func (s *scene) variables() *strings.Replacer {
	s.Helper()
	known := []string{"$__rate_interval", "10s"}
	for _, it := range readDashboard(s.T).Templating.List[1:] {
		query := labelValues.FindStringSubmatch(strings.NewReplacer(known...).Replace(it.Definition))
		if query == nil || !strings.Contains(string(it.Query), "label_values(") {
			s.Fatalf("variable %s: %s", it.Name, it.Definition)
		}
		var values []string
		s.must(s.prometheus.Until(s.ctx, it.Name, func(ctx context.Context) (err error) {
			if values, err = s.prometheus.LabelValues(ctx, query[2], query[1]); err == nil && len(values) == 0 {
				err = errors.New("no values")
			}
			return err
		}))
		known = append(known, "$"+it.Name, strings.Join(values, "|"))
	}
	return strings.NewReplacer(known...)
}

// nextScrape waits until Prometheus has scraped all targets once more.
func (s *scene) nextScrape() {
	s.Helper()
	const scrapes = `min(count_over_time(up[1h]))`
	before, err := s.prometheus.Query(s.ctx, scrapes)
	s.must(err)
	s.must(s.prometheus.Until(s.ctx, "a scrape", func(ctx context.Context) error {
		now, err := s.prometheus.Query(ctx, scrapes)
		if err == nil && (len(now) == 0 || fmt.Sprint(now) == fmt.Sprint(before)) {
			err = errors.New("no new scrape")
		}
		return err
	}))
}
