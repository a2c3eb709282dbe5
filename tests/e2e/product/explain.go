package product

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
)

// Explain runs `extender-gateway explain` about a pod and returns its output as "table", "json" or "yaml". It calls
// the gateway at its admin address.
func Explain(ctx context.Context, kubeconfig, admin, format string, pod *corev1.Pod) (string, error) {
	return explain(ctx, "pod/"+pod.Name, pod.Namespace, "-o", format, "--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
}

// ExplainDeployment is what explain prints about the oldest waiting pod of a Deployment.
func ExplainDeployment(ctx context.Context, kubeconfig, admin, namespace, name string) (string, error) {
	return explain(ctx, "deployment/"+name, namespace, "--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
}

// ExplainThroughAPIServer does the same for gateways that are pods of a namespace, through kube-apiserver's pod
// proxy.
func ExplainThroughAPIServer(ctx context.Context, kubeconfig, namespace, adminPort string, pod *corev1.Pod) (string, error) {
	return explain(ctx, "pod/"+pod.Name, pod.Namespace, "-o", "json", "--kubeconfig", kubeconfig, "--gateway-namespace", namespace, "--admin-port", adminPort)
}

func explain(ctx context.Context, subject, namespace string, options ...string) (string, error) {
	binary, err := Binary(Gateway)
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, binary, append([]string{"explain", subject, "-n", namespace}, options...)...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("explain: %w: %s%s", err, out, said.String())
	}
	return string(out), nil
}

// ReadExplanation reads the JSON output of explain.
func ReadExplanation(text string) (explanation Explanation, err error) {
	if err := json.Unmarshal([]byte(text), &explanation); err != nil {
		return explanation, fmt.Errorf("explain prints %q: %w", text, err)
	}
	return explanation, nil
}
