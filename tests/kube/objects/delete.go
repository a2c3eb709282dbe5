package objects

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// now deletes without the grace period in which a kubelet would stop containers.
var now = metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}

// DeletePods deletes all pods of the namespaces, and returns when they are gone.
func DeletePods(ctx context.Context, client kubernetes.Interface, namespaces ...string) error {
	var errs []error
	for _, namespace := range namespaces {
		if err := client.CoreV1().Pods(namespace).DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
			errs = append(errs, fmt.Errorf("delete the pods of %s: %w", namespace, err))
		}
	}
	return errors.Join(errs...)
}

// DeleteNodes deletes all nodes, and returns when they are gone.
func DeleteNodes(ctx context.Context, client kubernetes.Interface) error {
	if err := client.CoreV1().Nodes().DeleteCollection(ctx, now, metav1.ListOptions{}); err != nil {
		return fmt.Errorf("delete the nodes: %w", err)
	}
	return nil
}
