// Package objects makes nodes and pods that look like those of a real cluster (modeled on captured kube-scheduler
// requests), and creates and deletes them in bulk.
package objects
