package facts

import (
	"fmt"
	"math/rand"
	"strings"
)

// generator draws cases. Equal seeds give equal cases.
type generator struct{ *rand.Rand }

func newGenerator(seed int64) generator { return generator{rand.New(rand.NewSource(seed))} }

// one in n is true.
func (g generator) one(n int) bool { return g.Intn(n) == 0 }

func pick[T any](g generator, from ...T) T { return from[g.Intn(len(from))] }

// digits draws up to this many, including leading and trailing zeros.
func (g generator) digits(most int) string {
	var text strings.Builder
	for range g.Intn(most + 1) {
		text.WriteString(pick(g, "0", "0", "1", "5", "9", fmt.Sprint(g.Intn(10))))
	}
	return text.String()
}

var suffixes = []string{
	"", "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
}

// suffix draws a suffix or an exponent.
func (g generator) suffix() string {
	if !g.one(4) {
		return pick(g, suffixes...)
	}
	return fmt.Sprintf("%s%s%d", pick(g, "e", "E"), pick(g, "", "+", "-"), g.Intn(pick(g, 4, 12, 50)))
}

// magnitude draws a quantity that is not negative, from zero to far more than fits.
func (g generator) magnitude() string {
	whole := g.digits(pick(g, 1, 3, 8, 22))
	if whole == "" {
		whole = "0"
	}
	if g.one(3) {
		whole += "." + g.digits(pick(g, 1, 3, 15, 40))
	}
	return whole + g.suffix()
}

// quantityText draws what may be a quantity.
func (g generator) quantityText() string {
	switch g.Intn(10) {
	case 0:
		// Mostly without a sign.
		return pick(g, "", "+", "x") + g.digits(3) + pick(g, "", ".", " ", "-") + g.digits(2) + pick(g, "", "e", "i", "kk", "ki", "K", "m", "Gi")
	case 1:
		return "+" + g.magnitude()
	case 2:
		// No object has a negative amount. For longer ones, and those with binary suffixes, apimachinery's results
		// are arbitrary: "-1.0Ti" is 7293016647, "-1519.8011110095121" is -1518.
		return "-" + g.digits(8) + pick(g, "", "n", "u", "m", "k", "M", "e1", "E-2")
	default:
		return g.magnitude()
	}
}
