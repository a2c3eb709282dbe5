// Package naivegateway is a gateway as one would write it first, in Go: typed JSON of k8s.io/kube-scheduler in and
// out, an informer of nodes, and for each backend one protobuf message with every node, called in parallel over
// google.golang.org/grpc. The benchmark compares the product with it, so it is neither slowed down nor tuned.
package naivegateway
