// Package policies compares the ready-made policies node-resources and node-affinity, run as they are deployed
// and asked over gRPC, with kube-scheduler's plugins NodeResourcesFit, NodeResourcesBalancedAllocation and
// NodeAffinity, on random clusters: verdicts, reasons, whether preemption may help, and raw scores.
//
// Facts and usage are filled in here, from kube-scheduler's own NodeInfo. POLICIES_SEED chooses other
// clusters than the usual ones.
package policies
