// Package legacypolicy reads the output of `extender-gateway scheduler-config --kubernetes 1.18`, the file of
// --policy-config-file, with the types of the last kube-scheduler that had them. It is a separate module, because
// these types and those of today do not fit into one. It contains only tests.
package legacypolicy
