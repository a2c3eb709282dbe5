package prometheus

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// Config is the part of Prometheus' configuration that tests write.
type Config struct {
	Global        Global   `json:"global"`
	RuleFiles     []string `json:"rule_files,omitempty"`
	ScrapeConfigs []Job    `json:"scrape_configs"`
}

// Global has how often Prometheus scrapes and evaluates.
type Global struct {
	ScrapeInterval     string `json:"scrape_interval"`
	ScrapeTimeout      string `json:"scrape_timeout"`
	EvaluationInterval string `json:"evaluation_interval"`
}

// Job is what Prometheus scrapes under one name.
type Job struct {
	Name string `json:"job_name"`
	// Scheme is "https", or "" for http.
	Scheme string `json:"scheme,omitempty"`
	// TLS is nil for the usual checks of certificates.
	TLS     *TLS     `json:"tls_config,omitempty"`
	Targets []Target `json:"static_configs"`
}

// TLS is how a target's certificate is checked.
type TLS struct {
	InsecureSkipVerify bool `json:"insecure_skip_verify"`
}

// Target has addresses, and labels of their series.
type Target struct {
	Addresses []string          `json:"targets"`
	Labels    map[string]string `json:"labels,omitempty"`
}

// EverySecond scrapes and evaluates once a second, so that tests need not wait.
var EverySecond = Global{ScrapeInterval: "1s", ScrapeTimeout: "1s", EvaluationInterval: "1s"}

// Server is a running Prometheus.
type Server struct {
	*process.Process
	url  string
	port ports.Port
}

// Program is the path of the program of Prometheus with this name: prometheus or promtool.
func Program(name string) (string, error) {
	program, err := exec.LookPath(name)
	if err != nil {
		err = fmt.Errorf("%s is missing: install it, for example with tests/tools/ensure prometheus: %w", name, err)
	}
	return program, err
}

// Start runs Prometheus until it answers; its files are in dir. The caller calls Close.
func Start(ctx context.Context, dir string, config Config) (*Server, error) {
	program, err := Program("prometheus")
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	port, err := ports.Reserve(ports.ReuseAddress)
	if err != nil {
		return nil, err
	}
	p, err := process.Start("prometheus", dir, program, "--config.file="+file, "--web.listen-address="+port.Address(),
		"--storage.tsdb.path="+filepath.Join(dir, "data"))
	if err != nil {
		port.Release()
		return nil, err
	}
	s := &Server{Process: p, url: port.URL("http"), port: port}
	if err := s.Until(ctx, "ready", s.ready); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) ready(ctx context.Context) error {
	_, err := s.Query(ctx, "vector(1)")
	return err
}

// Close ends it at once.
func (s *Server) Close() error {
	err := s.Kill()
	s.port.Release()
	return err
}

// UntilIs waits until the query's only series has this value.
func (s *Server) UntilIs(ctx context.Context, query, want string) error {
	return s.Until(ctx, query, func(ctx context.Context) error {
		series, err := s.Query(ctx, query)
		if err == nil && (len(series) != 1 || series[0].Value != want) {
			err = fmt.Errorf("%s is %v instead of %s", query, series, want)
		}
		return err
	})
}

// UntilRulesAreHealthy waits until each rule was evaluated without an error.
func (s *Server) UntilRulesAreHealthy(ctx context.Context) error {
	return s.Until(ctx, "healthy rules", func(ctx context.Context) error {
		rules, err := s.rules(ctx)
		if err == nil && len(rules) == 0 {
			err = errors.New("there are no rules")
		}
		for _, rule := range rules {
			if rule.Health != "ok" {
				err = errors.Join(err, fmt.Errorf("%s is %s: %s", rule.Name, rule.Health, rule.LastError))
			}
		}
		return err
	})
}
