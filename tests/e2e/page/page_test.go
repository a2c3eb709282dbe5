package page

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"extender-gateway.io/tests/e2e/product"
	"extender-gateway.io/tests/kube/controlplane"
)

// cells has the texts of the rows of nodes that exist as elements.
const cells = `[...document.querySelectorAll('#map .rows [role=row]')].map((row) => [...row.children].map((cell) => cell.textContent))`

func TestThePageShowsStatusPodAndReasons(t *testing.T) {
	gateway := startGateway(t)
	gateway.schedule("web-0", nodes(6))
	gateway.schedule("db-0", nodes(3)[1:])
	browser := openTab(t)
	browser.open("http://" + gateway.admin + "/")
	browser.untilText("replica", "ready")
	browser.untilText("problems", "WARNING", "backend away", "cannot connect", "Remedy:")
	browser.untilText("status", "zones", "racks", "connected", "filter", "prioritize")
	browser.untilText("calls-charts", "filter", "2 calls, 0 failed", "prioritize")
	browser.untilText("charts", "zones", "38 % of 8 nodes", "next (shadow)")
	browser.untilText("shadow", "next", "100 %")
	browser.untilText("shadow-pods", "nowhere", "ReplicaSet shop/db", "zone is closed", "shop/db-0")

	browser.searchFor("web")
	if hash := value[string](browser, "location.hash"); hash != "#pod=shop%2Fweb-0" {
		t.Errorf("the search leads to %s", hash)
	}
	browser.untilText("summary", "Latest attempt: 6 nodes were offered, 4 left, 2 rejected")
	browser.untilText("calls", "cannot connect", "failure policy: ignore")
	browser.expectMap()
	browser.expectReasonByKeyboard()
	browser.expectTextOnly()
	browser.expectSilence()

	must(t, gateway.server.Kill())
	browser.until("the message that the gateway is away", `!document.getElementById('away').hidden`)
	browser.untilText("away", "does not answer", "kubectl port-forward")
	browser.untilText("summary", "6 nodes were offered")
	browser.untilText("light", "? no answer")
	browser.untilText("worst", "the last that was known, from ")
	browser.until("a gray title", `document.title === '? no answer – web-0 – extender-gateway' && document.body.classList.contains('stale')`)
}

// searchFor opens the only pod with this in its name, by keyboard.
func (t *tab) searchFor(text string) {
	t.Helper()
	t.press("/")
	t.until("the focus on the search", `document.activeElement.id === 'search'`)
	t.press(strings.Split(text, "")...)
	t.until("one pod", `document.querySelectorAll('#found [role=option]').length === 1`)
	t.untilText("found", "shop/web-0", "4 of 6 nodes left")
	t.press(enter)
	t.until("the pod", `!document.getElementById('pod').hidden && document.getElementById('found').hidden`)
}

// expectMap expects one row for each different node.
func (t *tab) expectMap() {
	t.Helper()
	t.until("the table of nodes", `document.querySelectorAll('#map .rows [role=row]').length === 5`)
	titles := value[[]string](t, `[...document.querySelectorAll('#map [role=columnheader]')].map((it) => it.textContent)`)
	if want := []string{"Node", "Total", "zones", "away", "racks", "next (shadow)"}; !slices.Equal(titles, want) {
		t.Errorf("the columns are %q, not %q", titles, want)
	}
	// The racks and the zones of nodes 0 to 5 are a0 b1 c0 a1 b0 c1. Both rejected nodes have equal answers.
	want := [][]string{
		{"node-0001", "14", "✓", "! unreachable", "7 → 7 × 2", "≠ ✕ zone is closed"},
		{"node-0003", "14", "✓", "! unreachable", "7 → 7 × 2", "✓"},
		{"node-0000", "0", "✓", "! unreachable", "0 → 0 × 2", "✓"},
		{"node-0004", "0", "✓", "! unreachable", "0 → 0 × 2", "≠ ✕ zone is closed"},
		{"2 nodes: node-0002, …", "✕", "✕ " + hostile, "! unreachable", "–", "–"},
	}
	if got := value[[][]string](t, cells); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("the table has\n%q, not\n%q", got, want)
	}
}

// expectReasonByKeyboard moves to the rejected nodes, whose reason is then below the table.
func (t *tab) expectReasonByKeyboard() {
	t.Helper()
	t.do(focus("#map"))
	t.pressWithControl(end)
	t.untilText("detail", "2 nodes", "backend next", "not asked about this node", "the decision did not depend on it", "node-0002, node-0005")
	t.press(left, left, left)
	t.untilText("detail", "backend zones", "filter: rejected: "+hostile, "kube-scheduler got this reason")
	active := `document.getElementById(document.getElementById('map').getAttribute('aria-activedescendant'))`
	t.until("one active cell", fmt.Sprintf(`%[1]s.classList.contains('active') && document.querySelectorAll('#map .active').length === 1
		&& %[1]s.getAttribute('role') === 'gridcell' && %[1]s.getAttribute('aria-label').includes('zone is drained')`, active))
	if outline := value[string](t, fmt.Sprintf("getComputedStyle(%s).outlineStyle", active)); outline != "solid" {
		t.Errorf("the focused cell has the outline %q", outline)
	}
}

// expectTextOnly expects no element from a reason, and the page's own title.
func (t *tab) expectTextOnly() {
	t.Helper()
	if count := value[int](t, `document.querySelectorAll('img, body script:not([nonce])').length`); count != 0 {
		t.Errorf("%d elements come from a reason", count)
	}
	if title := value[string](t, "document.title"); title != "▲ 1 warning – web-0 – extender-gateway" {
		t.Errorf("the title is %q", title)
	}
}

// waitingPods are the pods of TestThePageFollowsTheState: as many as it takes to call it an error, of two workloads.
var waitingPods = []string{"web-0", "web-1", "web-2", "web-3", "web-4", "web-5", "web-6", "web-7", "job-0", "job-1", "job-2", "job-3"}

func TestThePageFollowsTheState(t *testing.T) {
	good, bad := []any{rejecting(hostile, "c")}, []any{rejecting(hostile, "a", "b", "c")}
	url, rules := changingPolicy(t, "zones", good)
	gateway := serveGateway(t, product.NewConfig(nil, controlplane.FullObjects, []product.Backend{{Name: "zones", URL: url, Filter: &product.Filter{Timeout: "1s"}}}))
	browser := openTab(t)
	browser.open("http://" + gateway.admin + "/")
	gateway.filterAll(4)
	browser.expectNoProblem()
	for range 2 {
		writeRules(t, rules, bad)
		gateway.filterAll(0)
		browser.expectError()
		writeRules(t, rules, good)
		gateway.filterAll(4)
		browser.expectNoProblem()
	}
	browser.expectSilence()
}

// filterAll filters for all waiting pods, once so many of six nodes are left.
func (g gateway) filterAll(left int) {
	g.Helper()
	until := time.Now().Add(patience)
	for reply := g.filter("web-0", nodes(6)); reply.Nodes == nil || len(reply.Nodes.Items) != left; reply = g.filter("web-0", nodes(6)) {
		if time.Now().After(until) {
			g.Fatalf("the policy does not follow its rules: not %d nodes are left", left)
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, pod := range waitingPods {
		g.filter(pod, nodes(6))
	}
}

func (t *tab) expectNoProblem() {
	t.Helper()
	t.untilText("light", "● no problem")
	t.untilText("problems", "No problem.")
	t.untilText("waiting", "No pod waits")
	t.until("a good title and icon", `document.title === '● no problem – extender-gateway' && decodeURIComponent(document.getElementById('icon').href).includes('<circle fill="#1a7f37"')`)
}

func (t *tab) expectError() {
	t.Helper()
	t.untilText("light", "✕ 1 error")
	t.untilText("worst", "backend zones: it rejected every node")
	t.untilText("problems", "ERROR", "backend zones", "Remedy:")
	t.untilText("waiting", "12 pods by workload and reason, 2 groups", "ReplicaSet shop/web", "ReplicaSet shop/job", hostile)
	t.until("a red title and icon", `document.title === '✕ 1 error – extender-gateway' && decodeURIComponent(document.getElementById('icon').href).includes('<path fill="#c42b1c"')`)
	counts := value[[]string](t, `[...document.querySelectorAll('#waiting tbody tr')].map((row) => row.cells[0].textContent + ' ' + row.cells[2].textContent)`)
	if want := []string{"8 ReplicaSet shop/web", "4 ReplicaSet shop/job"}; !slices.Equal(counts, want) {
		t.Errorf("the waiting pods are %q, not %q", counts, want)
	}
	if link := value[string](t, `document.querySelector('#waiting a').hash`); link != "#pod=shop%2Fweb-0" {
		t.Errorf("the first group leads to %s", link)
	}
	if count := value[int](t, `document.querySelectorAll('img').length`); count != 0 {
		t.Errorf("%d elements come from a reason", count)
	}
}

func TestThePageShowsFiveThousandNodes(t *testing.T) {
	const count = 5000
	gateway := startGateway(t)
	gateway.schedule("web-0", nodes(count))
	browser := openTab(t)
	browser.open("http://" + gateway.admin + "/#pod=shop/web-0")
	browser.untilText("count", "5,000 nodes in 5 rows")
	browser.untilText("map", "834 nodes: node-0001, …", "1,666 nodes: node-0002, …")
	browser.do(click("#grouped"))
	browser.untilText("count", "5,000 nodes in 5,000 rows")
	if rows := value[string](browser, `document.getElementById('map').getAttribute('aria-rowcount')`); rows != "5001" {
		t.Errorf("the table has %s rows", rows)
	}
	browser.do(focus("#map"))
	browser.pressWithControl(end)
	browser.untilText("detail", "node-4997", "backend next", "not asked about this node")
	browser.press(down, right)
	// As many rows are elements as fit into the window, wherever it is.
	browser.until("few elements", `document.querySelectorAll('#map .rows [role=row]').length < 80 && document.querySelector('#map .active') !== null`)
	browser.do(click("#node"))
	browser.press("4", "9", "9", "6")
	browser.untilText("count", "1 node in 1 row")
	browser.untilText("detail", "node-4996")
	browser.expectSilence()
}

func TestThePageSaysThatTheLogIsOff(t *testing.T) {
	config := product.NewConfig(nil, controlplane.FullObjects, []product.Backend{
		{Name: "away", URL: "http://127.0.0.1:1", Filter: &product.Filter{FailurePolicy: "Ignore"}},
	})
	config.Decisions = &product.Decisions{MaxBytes: 0}
	gateway := serveGateway(t, config)
	browser := openTab(t)
	browser.open("http://" + gateway.admin + "/#pod=shop/web-0")
	browser.untilText("off", "decisions.maxBytes")
	browser.untilText("summary", "No decision about this pod")
	browser.expectSilence()
}
