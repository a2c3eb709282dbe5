package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// caller is kube-scheduler's side, on its own connection.
type caller struct {
	address string
	client  *http.Client
}

func newCaller(address string) *caller {
	return &caller{address, &http.Client{Transport: &http.Transport{}}}
}

// post waits for the whole answer, which must be a success.
func (c *caller) post(ctx context.Context, verb string, body []byte) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+c.address+"/"+verb, bytes.NewReader(body))
	if err != nil {
		return err
	}
	response, err := c.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if verb != "filter" && response.StatusCode == http.StatusOK {
		return nil
	}
	var result extenderv1.ExtenderFilterResult
	if err := json.Unmarshal(answer, &result); err != nil {
		return fmt.Errorf("%s: %s: %w", verb, response.Status, err)
	}
	if result.Error != "" {
		return fmt.Errorf("%s: %s", verb, result.Error)
	}
	return nil
}

// postAll has all callers post at once.
func postAll(ctx context.Context, callers []*caller, body []byte) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, c := range callers {
		group.Go(func() error { return c.post(ctx, "filter", body) })
	}
	return group.Wait()
}

func withNames(pod *corev1.Pod, names []string) ([]byte, error) {
	return json.Marshal(extenderv1.ExtenderArgs{Pod: pod, NodeNames: &names})
}

func withNodes(pod *corev1.Pod, nodes *corev1.NodeList) ([]byte, error) {
	return json.Marshal(extenderv1.ExtenderArgs{Pod: pod, Nodes: nodes})
}

func namesOf(nodes []*corev1.Node) []string {
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	return names
}
