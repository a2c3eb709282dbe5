package facts

import (
	"math"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantities is the number of compared texts.
const quantities = 5000

// scaled is the quantity in units of ten to the power of scale, as Kubernetes computes it; limited to the range of
// the type, where Kubernetes wraps or returns 0.
func scaled(q resource.Quantity, scale resource.Scale) int64 {
	if q.Cmp(*resource.NewScaledQuantity(math.MaxInt64, scale)) > 0 {
		return math.MaxInt64
	}
	if q.Cmp(*resource.NewScaledQuantity(math.MinInt64, scale)) < 0 {
		return math.MinInt64
	}
	return q.ScaledValue(scale)
}

func TestQuantitiesAreThoseOfApimachinery(t *testing.T) {
	g := newGenerator(seed(t))
	var questions []question
	for range quantities {
		text := g.quantityText()
		questions = append(questions, question{Quantity: &text})
	}
	read := 0
	for i, got := range ask(t, questions) {
		text := *questions[i].Quantity
		q, err := resource.ParseQuantity(text)
		if err != nil || got.Error != "" {
			if (err != nil) != (got.Error != "") {
				t.Errorf("%q: apimachinery says %v, the gateway %q", text, err, got.Error)
			}
			continue
		}
		read++
		if milli, value := scaled(q, resource.Milli), scaled(q, 0); milli != got.Milli || value != got.Value {
			t.Errorf("%q: apimachinery has %d and %d thousandths, the gateway %d and %d", text, value, milli, got.Value, got.Milli)
		}
	}
	if read < quantities/2 || read == quantities {
		t.Errorf("%d of %d texts are quantities: the cases prove little", read, quantities)
	}
}
