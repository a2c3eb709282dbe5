package plugin

import (
	"sync"
	"time"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Where an attempt got its answer: the label answer.
const (
	answerKept    = "kept"
	answerAsked   = "asked"
	answerIgnored = "ignored"
	answerFailed  = "failed"
)

// kube-scheduler shows these with its own metrics.
var (
	attempts = metrics.NewCounterVec(&metrics.CounterOpts{
		Name: "extender_gateway_plugin_attempts_total",
		Help: "Attempts to place a pod, by where the policies' answer is from: kept from another pod, asked of the gateway, " +
			"ignored because no gateway answers, or failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"answer"})
	callSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Name:           "extender_gateway_plugin_call_duration_seconds",
		Help:           "How long kube-scheduler waited for the gateway to decide.",
		Buckets:        metrics.ExponentialBuckets(0.0005, 2, 14),
		StabilityLevel: metrics.ALPHA,
	})
	registered sync.Once
)

// register is called by each plugin of the process.
func register() {
	registered.Do(func() { legacyregistry.MustRegister(attempts, callSeconds) })
}

// observeCall is deferred with the time at which the call began.
func observeCall(began time.Time) { callSeconds.Observe(time.Since(began).Seconds()) }
