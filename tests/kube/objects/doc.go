// Package objects makes nodes and pods that look like those of a real cluster (in the mould of
// captured kube-scheduler requests), and creates and deletes them in numbers.
package objects
