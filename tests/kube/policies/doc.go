// Package policies compares the ready-made policies node-resources, node-affinity and spread, run as they are deployed
// and called over gRPC, with kube-scheduler's plugins NodeResourcesFit, NodeResourcesBalancedAllocation, NodeAffinity and
// PodTopologySpread, on random clusters: verdicts, reasons, whether preemption may help, and raw scores; of spread, whose
// reasons and scores are its own, the order of the nodes.
//
// Facts, usage and counts by topology are computed here, from kube-scheduler's own NodeInfo and from the pods of the
// cluster. POLICIES_SEED selects other clusters.
package policies
