// Package calltrace checks the trace of one call of kube-scheduler: a server span of the gateway, below it the
// decision, below that one client span for each request to a backend, and below those the backends' own spans.
// below it the decision, below that one client span for each question to a backend, and below those the backends' own.
package calltrace
