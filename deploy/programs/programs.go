// Package programs lists the programs that are published.
package programs

import "slices"

// Gateway is the program that the image starts by default.
const Gateway = "extender-gateway"

// Image are the programs of the image.
var Image = []string{Gateway, "kubectl-extender", "extender-policies"}

// Archive are those of the archive: also the one that authors of policies run.
var Archive = append(slices.Clone(Image), "policy-conformance")

// Crates have these programs.
var Crates = []string{"extender-gateway", "extender-policies", "policy-conformance"}
