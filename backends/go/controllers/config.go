package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/rand"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
)

// Those of kube-controller-manager, and of controller-runtime.
const (
	defaultLeaseDuration = 15 * time.Second
	defaultRenewDeadline = 10 * time.Second
	defaultRetryPeriod   = 2 * time.Second
	defaultStopWithin    = 10 * time.Second
)

// Controller is one of those that run in the leader.
type Controller struct {
	// Name is 1 to 63 bytes; no other one has it.
	Name string
	// Run works until ctx ends, and returns when it has stopped, with all goroutines that it has started. It is called again
	// when the replica is elected again. An error, or a panic, ends leadership and the process; nil ends this controller alone.
	Run func(ctx context.Context) error
}

// Config is what to run, and how the leader is elected.
type Config struct {
	// Lease is the name of the Lease, which is created if there is none. The replicas of a backend have one, and no other
	// program has it. Deleting it lets the fencing tokens begin again.
	Lease string
	// Namespace is that of the Lease. Default: that of the pod, or of the kubeconfig's current context.
	Namespace string
	// Controllers are run in the leader: at least one. With more than 32 of them, or a name beyond its limit, they run, but the
	// gateway shows nothing of them.
	Controllers []Controller

	// Identity is the name of this process as a holder: 1 to 253 bytes. No other process has it, no later one in the same
	// container either. Default: the name of the host and a random text.
	Identity string
	// Leases is the client. Default: one for the pod's service account, or elsewhere for KUBECONFIG or ~/.kube/config.
	Leases coordinationv1.LeasesGetter

	// LeaseDuration is after how long without a renewal others take over: whole seconds. Default: 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is how long after its last renewal the leader stops its controllers: less than LeaseDuration, and the
	// rest is what they have to stop. Default: 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two requests: less than RenewDeadline by a fifth. Default: 2 s.
	RetryPeriod time.Duration
	// StopWithin is how long controllers may take to stop, and at most until LeaseDuration after the last renewal, unless
	// another process has the Lease already. If they take longer, the process ends: no controller must go on beside those
	// of the next leader. Default: 10 s.
	StopWithin time.Duration
	// Logger is where elections are logged. Default: slog.Default().
	Logger *slog.Logger
	// Exit ends the process. Default: os.Exit. For tests.
	Exit func(code int)
}

// New reads the access to Kubernetes, and checks the configuration; the error has all mistakes. Nothing is requested yet.
func New(config Config) (*Elected, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	elected := &Elected{config: config}
	if mistakes := config.mistakes(); len(mistakes) > 0 {
		return nil, errors.New("invalid controllers: " + strings.Join(mistakes, "; "))
	}
	return elected, nil
}

func (c *Config) complete() error {
	c.LeaseDuration = cmp.Or(c.LeaseDuration, defaultLeaseDuration)
	c.RenewDeadline = cmp.Or(c.RenewDeadline, defaultRenewDeadline)
	c.RetryPeriod = cmp.Or(c.RetryPeriod, defaultRetryPeriod)
	c.StopWithin = cmp.Or(c.StopWithin, defaultStopWithin)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Exit == nil {
		c.Exit = os.Exit
	}
	if c.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("the host has no name: %w; set Config.Identity", err)
		}
		c.Identity = host + "_" + rand.String(10)
	}
	return c.connect()
}

// connect finds the apiserver and the namespace as client-go does, where they are not given.
func (c *Config) connect() error {
	if c.Leases != nil && c.Namespace != "" {
		return nil
	}
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		clientcmd.NewDefaultClientConfigLoadingRules(), &clientcmd.ConfigOverrides{})
	if c.Leases == nil {
		access, err := found.ClientConfig()
		if err != nil {
			return fmt.Errorf("cannot find the apiserver: %w; set KUBECONFIG, or run in a pod with a service account", err)
		}
		client, err := coordinationv1.NewForConfig(rest.AddUserAgent(access, "extender-policy"))
		if err != nil {
			return fmt.Errorf("cannot use the access to the apiserver: %w", err)
		}
		c.Leases = client
	}
	if c.Namespace == "" {
		namespace, _, err := found.Namespace()
		if err != nil {
			return fmt.Errorf("cannot find the Lease's namespace: %w; set Config.Namespace", err)
		}
		c.Namespace = namespace
	}
	return nil
}

func (c *Config) mistakes() []string {
	mistakes := c.controllerMistakes()
	add := func(format string, values ...any) { mistakes = append(mistakes, fmt.Sprintf(format, values...)) }
	for _, wrong := range validation.NameIsDNSSubdomain(c.Lease, false) {
		add("Config.Lease is %q: %s", c.Lease, wrong)
	}
	for _, wrong := range validation.ValidateNamespaceName(c.Namespace, false) {
		add("Config.Namespace is %q: %s", c.Namespace, wrong)
	}
	if c.LeaseDuration < time.Second || c.LeaseDuration%time.Second != 0 {
		add("Config.LeaseDuration is %v; expected whole seconds, at least one", c.LeaseDuration)
	}
	if c.LeaseDuration <= c.RenewDeadline {
		add("Config.RenewDeadline is %v; expected less than LeaseDuration, which is %v", c.RenewDeadline, c.LeaseDuration)
	}
	if least := time.Duration(leaderelection.JitterFactor * float64(c.RetryPeriod)); c.RetryPeriod < 1 || c.RenewDeadline <= least {
		add("Config.RetryPeriod is %v; expected more than 0, and %v times it less than RenewDeadline, which is %v",
			c.RetryPeriod, leaderelection.JitterFactor, c.RenewDeadline)
	}
	if c.StopWithin < 0 {
		add("Config.StopWithin is %v; expected more than 0", c.StopWithin)
	}
	return mistakes
}

func (c *Config) controllerMistakes() []string {
	var mistakes []string
	if len(c.Controllers) == 0 {
		mistakes = append(mistakes, "there is no controller; set Config.Controllers")
	}
	known := map[string]bool{}
	for _, controller := range c.Controllers {
		if known[controller.Name] {
			mistakes = append(mistakes, fmt.Sprintf("there are two controllers named %q; expected different names", controller.Name))
		}
		known[controller.Name] = true
		if controller.Run == nil {
			mistakes = append(mistakes, fmt.Sprintf("controller %q has no function; set Controller.Run", controller.Name))
		}
	}
	return mistakes
}
