// Package chart renders deploy/chart with the real helm and reads what it renders. It contains only tests; helm is a
// tool of this module, so that its dependencies are not those of the other tests.
package chart
