package main

import (
	"strings"
	"testing"

	"extender-gateway.io/tests/kube/controlplane"
)

func TestWhatObservingCostsIsARatioToTheSameGateway(t *testing.T) {
	s, err := parse(strings.Fields("--contenders echo,gateway --declare pure,node --observability off,sampled,default"))
	if err != nil {
		t.Fatal(err)
	}
	b := &stage{situation: s.situations[0]}
	rounds := newRounds()
	for _, c := range b.contenders {
		rate := map[string]float64{"echo": 90, "gateway-pure-observed-off": 100, "gateway-pure-observed-sampled": 97,
			"gateway-pure": 98, "gateway-node-observed-off": 50, "gateway-node-observed-sampled": 48, "gateway-node": 49}[c.name()]
		rounds.add(c, outcome{rate: rate})
		rounds.add(c, outcome{rate: 2 * rate})
	}
	ratios := map[string]float64{}
	for _, c := range b.report(rounds).Contenders {
		if c.RatioToUnobserved != nil {
			ratios[c.Name+" "+c.Observability] = c.RatioToUnobserved.Median
		}
	}
	for name, want := range map[string]float64{
		"gateway-pure-observed-off off": 1, "gateway-pure-observed-sampled sampled": 0.97,
		"gateway-node-observed-off off": 1, "gateway-node-observed-sampled sampled": 0.96,
	} {
		if ratios[name] != want {
			t.Errorf("%s: %v", name, ratios[name])
		}
		delete(ratios, name)
	}
	if len(ratios) > 0 {
		t.Errorf("compared, too: %v", ratios)
	}
}

func TestPresetsCompareWhatObservingCosts(t *testing.T) {
	for _, name := range []string{"standard", "full"} {
		situations, err := preset(name)
		if err != nil {
			t.Fatal(err)
		}
		if last := situations[len(situations)-1]; !last.comparesObservability() || last.mode != controlplane.Names {
			t.Errorf("%s: %+v", name, last)
		}
		s := settings{situations: situations}
		if !s.needsCollector() {
			t.Errorf("%s: the collector is not built", name)
		}
	}
}
