// Package policies compares the ready-made policies node-resources and node-affinity, run as they are deployed and
// called over gRPC, with kube-scheduler's plugins NodeResourcesFit, NodeResourcesBalancedAllocation and
// NodeAffinity, on random clusters: verdicts, reasons, whether preemption may help, and raw scores.
//
// Facts and usage are computed here, from kube-scheduler's own NodeInfo. POLICIES_SEED selects other clusters.
package policies
