package policies

import (
	"math"
	"testing"
)

// The factor that makes an extender's scores as large as those of plugins.
const extenderFactor = 10

// weights are those of a backend in the gateway, and of the plugin that it is compared with.
var weights = []int64{1, 2, 3, 7, 10, 25}

// checkRounding compares the scores of one policy in kube-scheduler: through the gateway, which normalizes raw
// scores (0 to 1 here), weights them and rounds once to a whole number, and as a plugin.
func checkRounding(t *testing.T, share float64, plugin int64, within func(weight int64) float64) {
	t.Helper()
	for _, weight := range weights {
		extender := extenderFactor * math.Round(10*share*float64(weight))
		if distance := math.Abs(extender - float64(plugin*weight)); distance > within(weight) {
			t.Errorf("weight %d: the extender counts %v, the plugin %d", weight, extender, plugin*weight)
		}
	}
}
