// Package conformance checks every policy backend of the repository with policy-conformance: the ready-made ones, and the
// examples of the SDK for each language.
//
// EXTENDER_CONFORMANCE=tls also checks them with mutual TLS (`make conformance`). The results are in
// tests/.out/conformance.md.
package conformance
