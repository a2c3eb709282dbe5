// Package prometheus runs a real Prometheus and asks it.
package prometheus
