// Package product runs the binaries of this repository as processes: the gateway, its ready-made
// policies and the echo extender of the benchmarks.
package product
