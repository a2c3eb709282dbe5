// Package policyapi is the contract with policy backends (proto/extender/policy/v1alpha1) as Go
// types, generated and committed, so that the tests need no generator.
//
// `go generate ./kube/policyapi` regenerates it after a change of the contract; that needs npm.
package policyapi

//go:generate npx --yes @bufbuild/buf@1.75.0 generate ../../../proto
