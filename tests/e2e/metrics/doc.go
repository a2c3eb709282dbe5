// Package metrics reads the metrics of the gateway's binary with Prometheus' own code: its parser of OpenMetrics,
// and a real Prometheus that scrapes it. It needs no control plane.
package metrics
