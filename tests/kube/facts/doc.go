// Package facts compares what the gateway reads from quantities and pods with the results of Kubernetes' own code:
// apimachinery's Quantity, PodRequests of component-helpers, and kube-scheduler's NodeInfo. It contains only tests.
//
// Run it alone with `go test ./kube/facts`; FACTS_SEED selects other cases.
package facts
