package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"

	"extender-gateway.io/tests/kube/controlplane"
)

// boundPods records when each pod gets its node, from its creation: kube-scheduler binds before it reports itself
// ready. The watch carries metadata only, so that measuring takes little from the two cores that are measured.
type boundPods struct {
	pods metadata.ResourceInterface
	// then is run once, in the background.
	then moment
	// times and err may be read when done is closed.
	times []time.Time
	err   error
	done  chan struct{}
}

// moment is an action when this many pods are bound.
type moment struct {
	count int
	do    func()
}

// bound selects the pods that have a node, so that a pod is "added" when it gets one.
const bound = "spec.nodeName!="

// watchBound waits for count pods in the background, until ctx ends.
func watchBound(ctx context.Context, cluster *controlplane.Cluster, count int, then moment) (*boundPods, error) {
	client, err := metadata.NewForConfig(cluster.REST)
	if err != nil {
		return nil, err
	}
	b := &boundPods{
		pods: client.Resource(corev1.SchemeGroupVersion.WithResource("pods")),
		then: then,
		done: make(chan struct{}),
	}
	present, err := b.pods.List(ctx, metav1.ListOptions{FieldSelector: bound})
	if err != nil {
		return nil, err
	}
	if len(present.Items) > 0 {
		return nil, errors.New("there are bound pods before the round begins")
	}
	go func() {
		defer close(b.done)
		b.err = b.collect(ctx, present.ResourceVersion, count)
	}()
	return b, nil
}

// collect watches until it has seen count pods. A busy apiserver closes watches that it considers slow, which loses
// nothing: the next one continues where it ended, a few milliseconds late.
func (b *boundPods) collect(ctx context.Context, version string, count int) error {
	for len(b.times) < count {
		events, err := b.pods.Watch(ctx, metav1.ListOptions{FieldSelector: bound, ResourceVersion: version})
		if err != nil {
			return fmt.Errorf("watch pods: %w", err)
		}
		version, err = b.note(events, version, count)
		events.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// note records the time of each event until there are count or the watch is closed, and returns the version of the
// last one.
func (b *boundPods) note(events watch.Interface, version string, count int) (string, error) {
	for event := range events.ResultChan() {
		pod, isPod := event.Object.(*metav1.PartialObjectMetadata)
		if !isPod {
			return version, fmt.Errorf("watch pods: %w", apierrors.FromObject(event.Object))
		}
		version = pod.ResourceVersion
		if event.Type != watch.Added {
			continue
		}
		b.times = append(b.times, time.Now())
		if len(b.times) == b.then.count {
			b.then.do()
		}
		if len(b.times) == count {
			break
		}
	}
	return version, nil
}
