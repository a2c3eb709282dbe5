// Package equivalence compares one gateway in front of N backends with N ordinary scheduler extenders, as
// kube-scheduler sees them: its own HTTP client calls both, its own code combines the answers. The policies are
// tables, so that both sides have the same ones.
//
// Run it alone with `go test ./kube/equivalence`; EQUIVALENCE_SEED and EQUIVALENCE_CASES select other cases.
package equivalence
