package objects

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestAGeneratedNameThatIsTakenIsGeneratedAgain(t *testing.T) {
	pods := NewReplicaSet("shop", "checkout", nil).Pods(2)
	pods[1].Name = pods[0].Name
	client := fake.NewClientset()
	if err := CreatePods(t.Context(), client, pods); err != nil {
		t.Fatal(err)
	}
	list, err := client.CoreV1().Pods("shop").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%d pods: %v", len(list.Items), err)
	}
}
