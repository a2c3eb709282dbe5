package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/controlplane"
	"extender-gateway.io/tests/kube/objects"
)

// patience is more than any variant takes, so that one that places nothing is noticed.
const patience = 10 * time.Minute

// round places one batch of pods and returns pods a second.
//
// All pods wait before kube-scheduler starts, so that it never runs out of work and nothing else
// happens while it works. The clock runs from the last pod of the warm-up to the last pod: starting,
// listing and connecting are not in it.
func (b *bench) round(ctx context.Context, v variant) (rate float64, err error) {
	defer func() {
		// Not ctx, which has ended if this is the end of an interrupted round.
		err = errors.Join(err, objects.DeletePods(context.Background(), b.cluster.Client, namespaces...))
	}()
	if err := objects.CreatePods(ctx, b.cluster.Client, podsOfDeployments(b.warmup+b.pods)); err != nil {
		return 0, err
	}
	started, err := v.start(ctx, b)
	defer func() { err = errors.Join(err, started.stop()) }()
	if err != nil {
		return 0, err
	}
	return b.schedule(ctx, started)
}

// schedule runs a kube-scheduler until all pods are bound.
func (b *bench) schedule(ctx context.Context, started *extenders) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	seen, err := watchBound(ctx, b.cluster, b.warmup+b.pods)
	if err != nil {
		return 0, err
	}
	scheduler, err := b.cluster.StartScheduler(ctx, controlplane.SchedulerOptions{Extenders: started.entries})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, scheduler.Kill()) }()
	select {
	case <-seen.done:
	case <-scheduler.Exited():
		return 0, scheduler.Failure(errors.New("ended during the round"))
	}
	if seen.err != nil {
		return 0, scheduler.Failure(fmt.Errorf("only %d of %d pods were bound: %w", len(seen.times), b.warmup+b.pods, seen.err))
	}
	return b.rate(seen.times), nil
}

// rate leaves the warm-up out.
func (b *bench) rate(times []time.Time) float64 {
	begin, end := times[b.warmup-1], times[len(times)-1]
	return float64(b.pods) / end.Sub(begin).Seconds()
}

// podsOfDeployments makes pods of a few Deployments, as those that fill a cluster are.
func podsOfDeployments(count int) []*corev1.Pod {
	web, batch := map[string]string{"tier": "web"}, map[string]string{"tier": "batch"}
	sets := []objects.ReplicaSet{
		objects.NewReplicaSet("shop", "checkout", web),
		objects.NewReplicaSet("shop", "reports", batch),
		objects.NewReplicaSet("search", "frontend", web),
		objects.NewReplicaSet("search", "indexer", batch),
		objects.NewReplicaSet("default", "cleanup", batch),
	}
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = sets[i%len(sets)].Pod()
	}
	return pods
}
