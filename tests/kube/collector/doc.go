// Package collector runs a real OpenTelemetry Collector and gives a test the data that arrives there. OTLP over
// gRPC or HTTP is forwarded as JSON to a receiver inside the test, and as text to the collector's log.
package collector
