// Package facts compares what the gateway reads from quantities and pods with what Kubernetes' own code makes of
// them: apimachinery's Quantity, PodRequests of component-helpers, and kube-scheduler's NodeInfo. There is
// nothing here but tests.
//
// Run it alone with `go test ./kube/facts`; FACTS_SEED chooses other cases than the usual ones.
package facts
