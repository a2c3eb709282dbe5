// Package observability checks the chart's dashboard and alerts and deploy/observability: that each expression of the dashboard
// and of the alerts has series in a real Prometheus that scrapes a gateway in use and kube-scheduler, that the alerts fire when
// they should, that the dashboard is complete, and that a real OpenTelemetry Collector runs with the configuration. It contains
// only tests.
package observability
