package page

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long the page may take to show something.
const patience = 20 * time.Second

// tab is a page in the browser.
type tab struct {
	*testing.T
	ctx context.Context
	// console has what the page writes to it: exceptions, and violations of the page's security policy.
	console iter.Seq2[chromedp.ConsoleMessage, error]
}

// openTab starts a browser with an empty profile.
func openTab(t *testing.T) *tab {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("chromium is missing: install it, for example with tests/tools/ensure chromium: %v", err)
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program), chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1280, 900),
		chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck,
		chromedp.WSURLReadTimeout(time.Minute),
	}
	for _, flag := range []string{
		"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync", "disable-dev-shm-usage",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(func() {
		// Waits for the browser, which otherwise still writes to its profile while that is removed.
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("the browser did not end well: %v", err)
		}
		cancel()
		cancelAllocator()
	})
	// The first call starts the browser, which ends with its context.
	must(t, chromedp.Do(ctx))
	return &tab{T: t, ctx: ctx, console: chromedp.Console(ctx)}
}

// expectSilence ends the page and expects that it has written nothing to the console.
func (t *tab) expectSilence() {
	t.Helper()
	const last = "that is all"
	t.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("console.log(%q)", last)))
	for message, err := range t.console {
		must(t.T, err)
		if message.Text == last {
			return
		}
		t.Errorf("on the console: %s: %s (%s)", message.Type, message.Text, message.URL)
	}
}

// do runs these actions, of which none may take long.
func (t *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	must(t.T, chromedp.Do(ctx, actions...))
}

func (t *tab) open(url string) {
	t.Helper()
	t.do(chromedp.Navigate(url))
}

// press sends keys to the focused element.
func (t *tab) press(keys ...string) {
	t.Helper()
	for _, key := range keys {
		t.do(chromedp.KeyEvent(key))
	}
}

// pressWithControl sends a key while the control key is held.
func (t *tab) pressWithControl(key string) {
	t.Helper()
	t.do(chromedp.KeyEvent(key, chromedp.KeyModifiers(kb.ModifierCtrl)))
}

func focus(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Focus(chromedp.CSS(selector))
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// value is that of an expression in the page.
func value[T any](t *tab, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	result, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	must(t.T, err)
	return result
}

// until waits until an expression is true.
func (t *tab) until(what, expression string) {
	t.Helper()
	poll := chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(patience))
	if _, err := chromedp.Run(t.ctx, poll); err != nil {
		t.Fatalf("waited for %s: %v; the page has\n%s", what, err, value[string](t, "document.body.innerText"))
	}
}

// untilText waits until an element is visible and has all of these texts.
func (t *tab) untilText(id string, parts ...string) {
	t.Helper()
	element := fmt.Sprintf("document.getElementById(%q)", id)
	conditions := []string{element + ".checkVisibility()"}
	for _, part := range parts {
		quoted, err := json.Marshal(part)
		must(t.T, err)
		conditions = append(conditions, fmt.Sprintf("%s.innerText.includes(%s)", element, quoted))
	}
	t.until(fmt.Sprintf("%q in #%s", parts, id), strings.Join(conditions, " && "))
}

// Keys.
const (
	down, right, left, end = kb.ArrowDown, kb.ArrowRight, kb.ArrowLeft, kb.End
	enter                  = kb.Enter
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
