package product

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
)

// Explain runs `extender-gateway explain` about a pod and returns what it prints as "table", "json" or "yaml". The gateway is
// asked at its admin address.
func Explain(ctx context.Context, kubeconfig, admin, format string, pod *corev1.Pod) (string, error) {
	binary, err := Binary(Gateway)
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, binary, "explain", "pod/"+pod.Name, "-n", pod.Namespace, "-o", format,
		"--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("explain: %w: %s%s", err, out, said.String())
	}
	return string(out), nil
}

// ReadExplanation reads what explain prints as JSON.
func ReadExplanation(text string) (explanation Explanation, err error) {
	if err := json.Unmarshal([]byte(text), &explanation); err != nil {
		return explanation, fmt.Errorf("explain prints %q: %w", text, err)
	}
	return explanation, nil
}
