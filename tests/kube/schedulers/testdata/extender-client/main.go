// Command extender-client makes one call with kube-scheduler's own client of this release. It reads a question from
// standard input, and prints what kube-scheduler would get. What differs between releases is in release-MINOR.go.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

// question is a call and what kube-scheduler knows at that time.
type question struct {
	// Config is kube-scheduler's configuration, and Entry the extender in it that is called.
	Config string
	Entry  int
	Verb   string
	Pod    *v1.Pod
	Nodes  []*v1.Node
	// Victims are pods to evict, by node.
	Victims map[string][]*v1.Pod
}

// answer is what the client returns.
type answer struct {
	Nodes        []string
	Failed       map[string]string
	Unresolvable map[string]string
	Scores       map[string]int64
	// Victims are names of pods, by node.
	Victims map[string][]string
	Error   string
}

func main() {
	var asked question
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		log.Fatal(err)
	}
	extenders, err := extendersOf([]byte(asked.Config))
	if err != nil {
		log.Fatal(err)
	}
	client, err := newClient(&extenders[asked.Entry])
	if err != nil {
		log.Fatal(err)
	}
	got, err := call(client, asked)
	if err != nil {
		got.Error = err.Error()
	}
	if err := json.NewEncoder(os.Stdout).Encode(got); err != nil {
		log.Fatal(err)
	}
}

func call(c client, asked question) (answer, error) {
	switch asked.Verb {
	case "filter":
		return filter(c, asked)
	case "prioritize":
		return prioritize(c, asked)
	case "preempt":
		return preempt(c, asked)
	case "bind":
		return answer{}, c.Bind(&v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: asked.Pod.Namespace, Name: asked.Pod.Name, UID: asked.Pod.UID},
			Target:     v1.ObjectReference{Kind: "Node", Name: asked.Nodes[0].Name},
		})
	default:
		return answer{}, fmt.Errorf("unknown verb %q", asked.Verb)
	}
}

func filter(c client, asked question) (answer, error) {
	kept, failed, unresolvable, err := c.filter(asked.Pod, asked.Nodes)
	got := answer{Failed: failed, Unresolvable: unresolvable}
	for _, node := range kept {
		got.Nodes = append(got.Nodes, node.Name)
	}
	return got, err
}

func prioritize(c client, asked question) (answer, error) {
	scores, _, err := c.Prioritize(asked.Pod, asked.Nodes)
	if err != nil {
		return answer{}, err
	}
	got := answer{Scores: map[string]int64{}}
	for _, score := range *scores {
		got.Scores[score.Host] = score.Score
	}
	return got, nil
}

func preempt(c client, asked question) (answer, error) {
	offered := map[string]*extenderv1.Victims{}
	for node, pods := range asked.Victims {
		offered[node] = &extenderv1.Victims{Pods: pods}
	}
	left, err := c.preempt(asked.Pod, asked.Nodes, offered)
	got := answer{Victims: map[string][]string{}}
	for node, victims := range left {
		for _, pod := range victims.Pods {
			got.Victims[node] = append(got.Victims[node], pod.Name)
		}
	}
	return got, err
}
