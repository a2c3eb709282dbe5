package objects

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// inParallel is the number of concurrent requests: enough for two cores.
const inParallel = 8

// CreateNodes creates the nodes, including their status, which an apiserver accepts at creation.
func CreateNodes(ctx context.Context, client kubernetes.Interface, nodes []*corev1.Node) error {
	return each(ctx, nodes, func(ctx context.Context, node *corev1.Node) error {
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		return err
	})
}

// CreatePods creates the pods in no fixed order. A generated name that is taken is generated again, as controllers
// do it.
func CreatePods(ctx context.Context, client kubernetes.Interface, pods []*corev1.Pod) error {
	return each(ctx, pods, func(ctx context.Context, pod *corev1.Pod) error {
		for {
			_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			if pod.GenerateName == "" || !apierrors.IsAlreadyExists(err) {
				return err
			}
			pod.Name = pod.GenerateName + suffix()
		}
	})
}

// CreateNamespaces creates the namespaces that do not exist yet.
func CreateNamespaces(ctx context.Context, client kubernetes.Interface, names ...string) error {
	return each(ctx, names, func(ctx context.Context, name string) error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		_, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

func each[T any](ctx context.Context, items []T, create func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inParallel)
	for _, item := range items {
		group.Go(func() error {
			if err := create(ctx, item); err != nil {
				return fmt.Errorf("create %T: %w", item, err)
			}
			return nil
		})
	}
	return group.Wait()
}
