// Package programs lists the programs that are published.
package programs

// Gateway is the program that the image starts by default.
const Gateway = "extender-gateway"

// Names are the programs of the image and of the archive.
var Names = []string{
	Gateway, "kubectl-extender", "extender-policies",
}
