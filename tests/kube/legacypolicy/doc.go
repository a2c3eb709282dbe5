// Package legacypolicy has the types of the last kube-scheduler that knew them read what
// `extender-gateway scheduler-config --kubernetes 1.18` prints: the file of --policy-config-file. It is a
// module of its own, because these types and those of today do not fit into one. There is nothing here
// but tests.
package legacypolicy
