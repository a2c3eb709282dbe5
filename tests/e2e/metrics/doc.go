// Package metrics reads what the gateway's binary shows of itself with Prometheus' own code: its parser of OpenMetrics,
// and a real Prometheus that scrapes it. It needs no control plane.
package metrics
