package controllers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func untilStopped(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func valid() Config {
	return Config{
		Lease: "quota-backend", Namespace: "shop", Leases: &client{leases: newLeases()},
		Controllers: []Controller{{Name: "quotas", Run: untilStopped}},
	}
}

func TestEachMistakeIsNamed(t *testing.T) {
	for text, change := range map[string]func(*Config){
		`there are two controllers named "quotas"`:                       func(c *Config) { c.Controllers = append(c.Controllers, c.Controllers[0]) },
		"there is no controller; set Config.Controllers":                 func(c *Config) { c.Controllers = nil },
		`controller "quotas" has no function; set Controller.Run`:        func(c *Config) { c.Controllers[0].Run = nil },
		`Config.Lease is "Quota Backend": a lowercase RFC 1123`:          func(c *Config) { c.Lease = "Quota Backend" },
		`Config.Lease is "": `:                                           func(c *Config) { c.Lease = "" },
		`Config.Namespace is "a/b": `:                                    func(c *Config) { c.Namespace = "a/b" },
		"Config.LeaseDuration is 1.5s; expected whole seconds":           func(c *Config) { c.LeaseDuration, c.RenewDeadline, c.RetryPeriod = 1500*time.Millisecond, 1, 0 },
		"Config.RenewDeadline is 10s; expected less than LeaseDuration":  func(c *Config) { c.LeaseDuration = 10 * time.Second },
		"Config.RetryPeriod is 9s; expected more than 0, and 1.2 times ": func(c *Config) { c.RetryPeriod = 9 * time.Second },
		"Config.RetryPeriod is -1s":                                      func(c *Config) { c.RetryPeriod = -time.Second },
		"Config.StopWithin is -1s; expected more than 0":                 func(c *Config) { c.StopWithin = -time.Second },
	} {
		config := valid()
		change(&config)
		if _, err := New(config); err == nil || !strings.Contains(err.Error(), text) || !strings.HasPrefix(err.Error(), "invalid controllers: ") {
			t.Errorf("%v lacks %q", err, text)
		}
	}
}

func TestTwoProcessesHaveTwoIdentities(t *testing.T) {
	one, err := New(valid())
	two, errOfTwo := New(valid())
	if err != nil || errOfTwo != nil || one.State().Identity == two.State().Identity || one.State().Identity == "" {
		t.Errorf("%v, %v", err, errOfTwo)
	}
}

func TestTheNamespaceIsThatOfTheKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfig(t, "http://127.0.0.1:1"))
	config := valid()
	config.Namespace, config.Leases = "", nil
	elected, err := New(config)
	if err != nil || elected.State().Lease != "shop/quota-backend" {
		t.Errorf("%v", err)
	}
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "missing"))
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "cannot find the apiserver: ") {
		t.Error(err)
	}
	config.Leases = valid().Leases
	if _, err := New(config); err == nil || !strings.Contains(err.Error(), "cannot find the Lease's namespace: ") {
		t.Error(err)
	}
}

func kubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	content := `{"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": [{"name": "test", "cluster": {"server": "` + server + `"}}],
		"contexts": [{"name": "test", "context": {"cluster": "test", "namespace": "shop"}}]}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
