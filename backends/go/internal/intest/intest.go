// Package intest lets package policytest tell a service who asks it.
package intest

// Mark says that a service, a *policy.Service, is asked by a test of its policy: its author reads what fails. Package policy sets it.
var Mark func(service any)
