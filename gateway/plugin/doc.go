// Package plugin lets kube-scheduler ask an extender-gateway for decisions without an extender: it is a plugin of the scheduling
// framework that calls the gateway's DoorService on a Unix socket, or over TLS with certificates on both sides. It knows
// kube-scheduler's framework and that protocol; order, weights, normalization and failure policies of backends are the gateway's.
//
// # Course of an attempt
//
// PreFilter calls Place: the pod, and the nodes of the snapshot as a list that the gateway remembers by its id. Filter and Score
// look the answer up. If scores depend on the nodes that are left, PreScore calls Score. Filter is skipped if no node is rejected, unless
// it notes which nodes kube-scheduler looks at: in a large cluster PreFilter asks only about those (walk.go). Score is skipped if all
// nodes have the same score. Reserve, Unreserve and PostBind call nothing: the next PreFilter of any profile tells what has become of
// pods, or a call of Tell if none comes soon. Bind calls a gateway that binds.
//
// An answer of which the gateway says that it holds for other pods is kept (kept.go): they get it without a call while one of Hold is
// in progress, and a signature with which kube-scheduler places them in batches.
//
// # Weight
//
// An extender's scores count 10 times its weight in kube-scheduler. The plugin's weight in the profile must therefore be 10 times
// the weight that the gateway had as an extender: usually 10. The framework accepts scores from 0 to 100. If the largest score of
// a call is greater, all scores of the call are divided by the smallest integer that makes them fit, so they count less than
// those of an extender, and small differences can vanish. The smallest score is taken from all of them if it is negative.
//
// # Preemption
//
// The gateway is not asked in kube-scheduler's dry run of a preemption. A node whose rejection may depend on pods passes
// there while at least one of its pods is removed, so at least one pod is evicted and the gateway is asked again after that. For a
// pod group kube-scheduler runs PreFilter again: the gateway is asked, and still counts the pods. Which pods may be evicted is asked
// in PostFilter, by the program in kube-scheduler/: this module does not know kube-scheduler's own plugins.
//
// # Limits of this version
//
// A rejected pod comes back for the events in EventsToRegister, not only for those that can change the policy's answer. In a
// placement of a pod group the gateway is asked about all nodes of the cluster, as kube-scheduler offers them to PreFilter.
package plugin
