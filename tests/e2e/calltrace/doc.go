// Package calltrace says what the trace of one call of kube-scheduler looks like: a server span at the gateway's door,
// below it the decision, below that one client span for each question to a backend, and below those the backends' own.
package calltrace
