package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"extender-gateway.io/tests/kube/objects"
)

const (
	namespace  = "shop"
	stuckLabel = "acme.io/stuck"
	// podsAlive is how many pods exist at a time; each fifteenth waits.
	podsAlive, stuckEach = 600, 15
)

// changePods creates a pod that is like no other, and deletes the oldest one.
func (s *stage) changePods(ctx context.Context) error {
	s.podNumber++
	labels := map[string]string{"tier": fmt.Sprintf("tier-%d", s.podNumber), "acme.io/ticket": fmt.Sprint(s.podNumber)}
	if s.podNumber%stuckEach == 0 {
		labels[stuckLabel] = "yes"
	}
	pod := objects.NewReplicaSet(namespace, fmt.Sprintf("job-%d", s.podNumber), labels).Pod()
	if err := objects.CreatePods(ctx, s.cluster.Client, []*corev1.Pod{pod}); err != nil {
		return err
	}
	s.pods = append(s.pods, pod)
	if len(s.pods) <= podsAlive {
		return nil
	}
	oldest := s.pods[0]
	s.pods = s.pods[1:]
	return s.cluster.Client.CoreV1().Pods(namespace).Delete(ctx, oldest.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
}

// changeNodes replaces the oldest node by a new one.
func (s *stage) changeNodes(ctx context.Context) error {
	next := s.nextNode()
	if err := objects.CreateNodes(ctx, s.cluster.Client, []*corev1.Node{next}); err != nil {
		return err
	}
	s.nodeList = append(s.nodeList, next)
	oldest := s.nodeList[0]
	s.nodeList = s.nodeList[1:]
	return s.cluster.Client.CoreV1().Nodes().Delete(ctx, oldest.Name, metav1.DeleteOptions{})
}

// restartBackend stops one of the backends and runs it again, or lets it crash each second time.
func (s *stage) restartBackend(ctx context.Context) error {
	restarts := int(s.restarts.Add(1))
	b := s.backends[restarts%len(s.backends)]
	crashes := restarts/len(s.backends)%2 == 1
	end := b.server.Stop
	if crashes {
		end = b.server.Kill
	}
	if err := end(); err != nil {
		return err
	}
	return s.startBackend(ctx, b)
}

// changeConfiguration changes the timeouts of the backends; each fourth time the file has a mistake.
func (s *stage) changeConfiguration(context.Context) error {
	s.changes++
	timeout := fmt.Sprintf("%dms", 500+s.changes%3*100)
	if s.changes%4 == 0 {
		timeout = "soon"
	}
	config := s.config
	config.Backends = s.entries(timeout)
	return config.Replace(s.file)
}
