package objects

import (
	"encoding/json"
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
