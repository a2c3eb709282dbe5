package observability

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// expressions are all of the dashboard and of the alerts, by their place; those of the dashboard have variables.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	d := readDashboard(t)
	for _, p := range d.Panels {
		for _, it := range p.Targets {
			all[fmt.Sprintf("panel %d %q %s", p.ID, p.Title, it.RefID)] = it.Expr
		}
	}
	for _, it := range d.Annotations.List {
		all["annotation "+it.Name] = it.Expr
	}
	for _, it := range alerts(t) {
		all["alert "+it.Alert] = it.Expr
	}
	return all
}

// withoutThresholds leaves the part of an expression that has series also when all is well: `a / b > 0.5 and c >= 2`
// becomes `a / b and c`, `absent(a)` becomes `a`, and each side of `a or b` is an expression of its own. Whether an alert's
// threshold is right is tested with promtool.
func withoutThresholds(text string) ([]string, error) {
	expr, err := parser.ParseExpr(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	var parts []string
	for _, part := range alternatives(expr) {
		parts = append(parts, strip(part).String())
	}
	return parts, nil
}

func alternatives(expr parser.Expr) []parser.Expr {
	if binary, is := expr.(*parser.BinaryExpr); is && binary.Op == parser.LOR && !hasFallback(binary) {
		return append(alternatives(binary.LHS), alternatives(binary.RHS)...)
	}
	return []parser.Expr{expr}
}

// hasFallback reports whether the right side only fills gaps, such as `a or vector(0)`.
func hasFallback(or *parser.BinaryExpr) bool { return strings.HasPrefix(or.RHS.String(), "vector(") }

func strip(expr parser.Expr) parser.Expr {
	switch it := expr.(type) {
	case *parser.ParenExpr:
		it.Expr = strip(it.Expr)
	case *parser.AggregateExpr:
		it.Expr = strip(it.Expr)
	case *parser.Call:
		if it.Func.Name == "absent" {
			return it.Args[0]
		}
	case *parser.BinaryExpr:
		it.LHS, it.RHS = strip(it.LHS), strip(it.RHS)
		if _, toNumber := it.RHS.(*parser.NumberLiteral); toNumber && it.Op.IsComparisonOperator() && !it.ReturnBool {
			return it.LHS
		}
		if it.Op.IsComparisonOperator() && it.RHS.Type() == parser.ValueTypeScalar {
			return it.LHS
		}
	}
	return expr
}
