package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"extender-gateway.io/tests/bench/results"
)

func example() results.Run {
	of := func(name, kind string, rate float64) results.Contender {
		return results.Contender{
			Name: name, Kind: kind, Title: name + " <&>", PodsPerSecond: results.SpreadOf([]float64{rate}),
			RatioToEcho: new(results.SpreadOf([]float64{rate / 200})),
			Processes:   []results.Process{{Name: "etcd", CPUMicroseconds: 1500, VoluntarySwitches: 2, InvoluntarySwitches: 1}},
		}
	}
	s := results.Situation{Nodes: 1000, NodeMode: "names", Workload: "few-deployments", Policies: 3, Pods: 300, Warmup: 50}
	s.Contenders = []results.Contender{of("unbatched", "unbatched", 400), of("echo", "echo", 200), of("gateway-pure", "gateway", 190)}
	other := s
	other.Policies, other.Nodes = 8, 100
	return results.Run{Rounds: 7, Situations: []results.Situation{other, s}}
}

func TestTheChartIsWellFormedAndHasEveryBar(t *testing.T) {
	var out bytes.Buffer
	draw(&out, example())
	bars := 0
	for decoder := xml.NewDecoder(&out); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "rect" {
			bars++
		}
	}
	if bars != 4 {
		t.Errorf("%d bars", bars)
	}
}

func TestTablesHaveRatesAndCosts(t *testing.T) {
	var out bytes.Buffer
	writeTables(&out, example())
	for _, line := range []string{
		"### 1,000 nodes, names, pods of few Deployments, policies: 3",
		"| gateway-pure <&> | 190.0 (190.0–190.0) | 0.95 (0.95–0.95) | – |",
		"| gateway-pure <&> | 1.50 | 3 | etcd 1.50 (2.0 + 1.0) |",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("no line %q in\n%s", line, out.String())
		}
	}
}

func TestTheOverviewHasAColumnForEachSituation(t *testing.T) {
	run := example()
	other := run.Situations[0]
	other.Nodes, other.Contenders = 5000, other.Contenders[:1]
	run.Situations = append(run.Situations, other)
	var out bytes.Buffer
	writeOverview(&out, run)
	first := heading(run.Situations[0])
	last := heading(other)
	if !strings.Contains(out.String(), "| "+first) || !strings.Contains(out.String(), last+" |\n") {
		t.Errorf("not both situations in\n%s", out.String())
	}
	line := regexp.MustCompile(`(?m)^\| gateway-pure <&> \| 190 \(0\.95\) .*\| – \|$`)
	if !line.MatchString(out.String()) {
		t.Errorf("no line of a contender that is in one situation in\n%s", out.String())
	}
}

func TestTheFiguresAreReplacedBetweenTheirMarkers(t *testing.T) {
	page := "# Performance\n" + beginMarker + "old\n" + endMarker + "The end.\n"
	for range 2 {
		fresh, err := between([]byte(page), []byte("new\n"))
		if err != nil {
			t.Fatal(err)
		}
		page = string(fresh)
	}
	if page != "# Performance\n"+beginMarker+"new\n"+endMarker+"The end.\n" {
		t.Error(page)
	}
	if _, err := between([]byte("no markers"), nil); err == nil {
		t.Error("a page without markers was accepted")
	}
}
