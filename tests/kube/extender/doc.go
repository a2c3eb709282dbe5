// Package extender is a typical scheduler extender in Go: net/http, typed JSON of
// k8s.io/kube-scheduler/extender/v1, an informer of nodes. The gateway is compared with it, so it is neither slowed
// down nor tuned.
package extender
