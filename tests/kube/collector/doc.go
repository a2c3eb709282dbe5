// Package collector runs a real OpenTelemetry Collector and shows a test what arrives there. Whatever is sent to it
// as OTLP, over gRPC or HTTP, goes on as JSON to a receiver inside the test, and in words to the collector's log.
package collector
