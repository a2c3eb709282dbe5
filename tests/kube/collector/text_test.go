package collector

import (
	"strings"
	"testing"
	"time"
)

// example is a call that one backend answers and one does not.
func example() Trace {
	at := func(micro int) time.Time { return time.UnixMicro(1_800_000_000_000_000 + int64(micro)) }
	gateway, zones := Attributes{"service.name": "extender-gateway"}, Attributes{"service.name": "zones"}
	return Trace{
		{TraceID: "t1", SpanID: "a", Name: "POST /filter", Start: at(0), End: at(4200), Resource: gateway,
			Attributes: Attributes{"http.response.status_code": int64(200)}},
		{TraceID: "t1", SpanID: "b", Parent: "a", Name: "decide filter", Start: at(10), End: at(4150), Resource: gateway,
			Attributes: Attributes{"k8s.pod.name": "checkout-1", "left": int64(3), "note": "two words"},
			Events:     []Event{{Name: "backend", Attributes: Attributes{"left": int64(2)}}},
			Links:      []Link{{TraceID: "t0", SpanID: "z", Attributes: Attributes{"extender.link": "previous call"}}}},
		{TraceID: "t1", SpanID: "c", Parent: "b", Name: "Filter", Start: at(20), End: at(1020), Resource: gateway},
		{TraceID: "t1", SpanID: "d", Parent: "b", Name: "Filter", Start: at(21), End: at(4100), Resource: gateway,
			Status: Status{Code: Error, Message: "late"}},
		{TraceID: "t1", SpanID: "e", Parent: "c", Name: "Filter", Start: at(300), End: at(700), Resource: zones},
	}
}

func TestATraceIsShownAsATree(t *testing.T) {
	const want = `
trace t1
POST /filter          4.20 ms  extender-gateway
│    http.response.status_code=200
└─ decide filter      4.14 ms  extender-gateway
   │    k8s.pod.name=checkout-1 left=3 note="two words"
   │    event backend left=2
   │    link to z of t0 extender.link="previous call"
   ├─ Filter          1.00 ms  extender-gateway
   │  └─ Filter       0.40 ms  zones
   └─ Filter          4.08 ms  extender-gateway
           error: late
`
	if got := "\n" + example().Text(); got != want {
		t.Errorf("%s", got)
	}
}

func TestOnlyTheAttributesThatAreAskedForAreShown(t *testing.T) {
	got := example().Text("left", "none")
	if !strings.Contains(got, "   │    left=3\n") || strings.Contains(got, "http.response.status_code") {
		t.Errorf("\n%s", got)
	}
}

func TestSpansWithoutTheirParentAreShownToo(t *testing.T) {
	got := Telemetry{Spans: example()[2:]}.String()
	if strings.Count(got, "\nFilter") != 2 || !strings.Contains(got, "└─ Filter") || !strings.Contains(got, "3 spans") {
		t.Errorf("\n%s", got)
	}
}

func TestLongLinesAreWrapped(t *testing.T) {
	got := wrapped([]string{"aa", "bb", "cccc", "d", "eeeeeeeee"}, 5)
	if strings.Join(got, "|") != "aa bb|cccc|d|eeeeeeeee" {
		t.Errorf("%q", got)
	}
}
