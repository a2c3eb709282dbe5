package product

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"

	corev1 "k8s.io/api/core/v1"
)

// Explain runs `extender-gateway explain` about a pod as JSON. The gateway is asked at its admin address.
func Explain(ctx context.Context, kubeconfig, admin string, pod *corev1.Pod) (Explanation, error) {
	binary, err := Binary(Gateway)
	if err != nil {
		return Explanation{}, err
	}
	command := exec.CommandContext(ctx, binary, "explain", "pod/"+pod.Name, "-n", pod.Namespace, "-o", "json",
		"--gateway", "http://"+admin, "--kubeconfig", kubeconfig)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return Explanation{}, fmt.Errorf("explain: %w: %s", err, said.String())
	}
	var explanation Explanation
	if err := json.Unmarshal(out, &explanation); err != nil {
		return Explanation{}, fmt.Errorf("explain prints %q: %w", out, err)
	}
	return explanation, nil
}
