package extender

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// nodesOf are the nodes of a call, from the call itself or by name from the informer.
func (e *Extender) nodesOf(args *extenderv1.ExtenderArgs) ([]*corev1.Node, error) {
	switch {
	case args.Pod == nil:
		return nil, errors.New("the call has no Pod")
	case args.Nodes != nil:
		return pointers(args.Nodes.Items), nil
	case args.NodeNames == nil:
		return nil, errors.New("the call has neither Nodes nor NodeNames")
	case e.Nodes == nil:
		return nil, errors.New("the call has NodeNames, but this extender was started without --kubeconfig")
	}
	return lookUp(e.Nodes, *args.NodeNames)
}

func pointers(items []corev1.Node) []*corev1.Node {
	nodes := make([]*corev1.Node, len(items))
	for i := range items {
		nodes[i] = &items[i]
	}
	return nodes
}

func lookUp(lister corelisters.NodeLister, names []string) ([]*corev1.Node, error) {
	nodes := make([]*corev1.Node, len(names))
	for i, name := range names {
		node, err := lister.Get(name)
		if err != nil {
			return nil, fmt.Errorf("look up a node: %w", err)
		}
		nodes[i] = node
	}
	return nodes, nil
}

// Watch starts an informer of nodes that runs until ctx ends, and waits until it is synced.
func Watch(ctx context.Context, kubeconfig string) (corelisters.NodeLister, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes()
	synced := nodes.Informer().HasSynced
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), synced) {
		return nil, fmt.Errorf("stopped before the nodes were listed: %w", ctx.Err())
	}
	return nodes.Lister(), nil
}
