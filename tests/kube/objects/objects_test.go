package objects

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestANodeWithTwentyImagesIsAsLargeAsARealOne(t *testing.T) {
	text, err := json.Marshal(Nodes(1, WithImages(20))[0])
	if err != nil {
		t.Fatal(err)
	}
	// The apiserver adds about 2.5 kB, mostly managedFields.
	if len(text) < 10_500 || len(text) > 12_500 {
		t.Errorf("%d bytes", len(text))
	}
}

func TestPodsOfAReplicaSetDifferAsRealOnesDo(t *testing.T) {
	pods := NewReplicaSet("shop", "checkout", nil).Pods(2)
	a, b := pods[0], pods[1]
	if a.Name == b.Name || a.Spec.Volumes[0].Name == b.Spec.Volumes[0].Name {
		t.Errorf("the pods share a name or a token volume: %s, %s", a.Name, a.Spec.Volumes[0].Name)
	}
	if a.OwnerReferences[0].UID != b.OwnerReferences[0].UID {
		t.Error("the pods have different owners")
	}
	if a.Spec.Containers[0].VolumeMounts[0].Name != a.Spec.Volumes[0].Name {
		t.Error("the token volume is not mounted")
	}
}

func TestGeneratedNamesAreValid(t *testing.T) {
	for range 100 {
		if name := suffix(); len(name) != 5 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
			t.Fatalf("suffix %q", name)
		}
	}
	if id := uuid(); len(id) != 36 {
		t.Errorf("uid %q", id)
	}
}
