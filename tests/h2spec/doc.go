// Package h2spec runs the conformance tests of HTTP/2 and HPACK of github.com/summerwind/h2spec against the port on which the
// gateway serves kube-scheduler. It speaks HTTP/2 there with TLS only.
package h2spec
