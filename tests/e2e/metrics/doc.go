// Package metrics reads what the gateway's binary says of itself with Prometheus' own code: the linter of
// `promtool check metrics` and the parsers of both text formats. It needs no control plane.
package metrics
