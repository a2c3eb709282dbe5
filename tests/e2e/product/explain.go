package product

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Explain runs `extender-gateway explain` about a pod and returns its output as "table", "json" or "yaml". It calls
// the gateway at its admin address.
func Explain(ctx context.Context, kubeconfig, admin, format string, pod *corev1.Pod) (string, error) {
	return explain(ctx, "pod/"+pod.Name, pod.Namespace, "-o", format, "--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
}

// ExplainToPeople returns everything that explain prints about a pod, and its exit code.
func ExplainToPeople(ctx context.Context, kubeconfig, admin string, pod *corev1.Pod) (text string, exitCode int, err error) {
	ran, err := run(ctx, "explain", "pod/"+pod.Name, "-n", pod.Namespace, "--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
	return ran.out + ran.said, ran.exitCode, err
}

// ExplainNode is what explain prints about a pod and one node, with what policies show of the node.
func ExplainNode(ctx context.Context, kubeconfig, admin, node string, pod *corev1.Pod) (string, error) {
	return explain(ctx, "pod/"+pod.Name, pod.Namespace, "--node", node, "--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
}

// ExplainPodsOf is what explain prints about the pods of a workload or group, such as deployment/web.
func ExplainPodsOf(ctx context.Context, kubeconfig, admin, namespace, subject string) (string, error) {
	return explain(ctx, subject, namespace, "--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
}

// ExplainInPods does the same for gateways that are pods of a namespace, through ports that kube-apiserver forwards.
func ExplainInPods(ctx context.Context, kubeconfig, namespace, adminPort string, pod *corev1.Pod) (string, error) {
	return explain(ctx, "pod/"+pod.Name, pod.Namespace, "-o", "json", "--kubeconfig", kubeconfig, "--gateway-namespace", namespace, "--admin-port", adminPort)
}

func explain(ctx context.Context, subject, namespace string, options ...string) (string, error) {
	ran, err := run(ctx, append([]string{"explain", subject, "-n", namespace}, options...)...)
	if err == nil && ran.exitCode != 0 {
		err = fmt.Errorf("explain ended with %d: %s%s", ran.exitCode, ran.out, ran.said)
	}
	return ran.out, err
}

// ReadExplanation reads the JSON output of explain.
func ReadExplanation(text string) (explanation Explanation, err error) {
	if err := json.Unmarshal([]byte(text), &explanation); err != nil {
		return explanation, fmt.Errorf("explain prints %q: %w", text, err)
	}
	return explanation, nil
}
