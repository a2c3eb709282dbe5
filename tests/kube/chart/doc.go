// Package chart applies what deploy/chart renders to a real kube-apiserver, and runs the gateway with exactly the account
// that the chart makes. It contains only tests; tests/chart has those that need no apiserver.
package chart
