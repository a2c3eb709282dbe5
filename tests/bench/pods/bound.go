package main

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"extender-gateway.io/tests/kube/controlplane"
)

// boundPods sees each pod once, when it gets its node. The watch carries metadata alone, so that
// measuring takes little from the two cores that are measured.
type boundPods struct {
	watch watch.Interface
}

func watchBound(ctx context.Context, cluster *controlplane.Cluster) (*boundPods, error) {
	client, err := metadata.NewForConfig(cluster.REST)
	if err != nil {
		return nil, err
	}
	pods := client.Resource(corev1.SchemeGroupVersion.WithResource("pods"))
	options := metav1.ListOptions{FieldSelector: "spec.nodeName!="}
	present, err := pods.List(ctx, options)
	if err != nil {
		return nil, err
	}
	if len(present.Items) > 0 {
		return nil, errors.New("there are bound pods before the round begins")
	}
	options.ResourceVersion = present.ResourceVersion
	w, err := pods.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return &boundPods{watch: w}, nil
}

func (b *boundPods) stop() { b.watch.Stop() }

// times returns when each of count pods was bound, in order.
func (b *boundPods) times(ctx context.Context, count int) ([]time.Time, error) {
	var times []time.Time
	for len(times) < count {
		select {
		case event, open := <-b.watch.ResultChan():
			if !open {
				return times, errors.New("the apiserver ended the watch of pods")
			}
			if event.Type == watch.Added {
				times = append(times, time.Now())
			}
		case <-ctx.Done():
			return times, ctx.Err()
		}
	}
	return times, nil
}
