package observability

import (
	"fmt"
	"testing"
)

// The id of the data source in each panel: the variable, so that the dashboard can be imported anywhere.
var anyPrometheus = source{Type: "prometheus", UID: "${datasource}"}

func TestDashboardIsComplete(t *testing.T) {
	for _, mistake := range lint(readDashboard(t)) {
		t.Error(mistake)
	}
}

// lint lists what is missing in a dashboard.
func lint(d dashboard) (mistakes []string) {
	say := func(format string, args ...any) { mistakes = append(mistakes, fmt.Sprintf(format, args...)) }
	if d.SchemaVersion < 41 {
		say("schemaVersion is %d", d.SchemaVersion)
	}
	if len(d.Templating.List) == 0 || d.Templating.List[0].Name != "datasource" || d.Templating.List[0].Type != "datasource" {
		say("the first variable is not the data source")
	}
	for _, it := range d.Annotations.List {
		if !is(it.Datasource) {
			say("annotation %s has another data source", it.Name)
		}
	}
	ids, cells := map[int]string{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if other, taken := ids[p.ID]; p.ID < 1 || taken {
			say("panel %q has the id %d, as has %q", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		mistakes = append(mistakes, lintPanel(p)...)
		mistakes = append(mistakes, lintPosition(p, cells)...)
	}
	return mistakes
}

func is(s *source) bool { return s != nil && *s == anyPrometheus }

func lintPanel(p panel) (mistakes []string) {
	say := func(format string, args ...any) {
		mistakes = append(mistakes, fmt.Sprintf("panel %d %q: ", p.ID, p.Title)+fmt.Sprintf(format, args...))
	}
	if p.Title == "" {
		say("no title")
	}
	if p.Type == "row" {
		if len(p.Panels) > 0 {
			say("it is collapsed, and its panels are not tested")
		}
		return mistakes
	}
	// Shorter ones cannot say what is normal.
	if len(p.Description) < 40 {
		say("no description")
	}
	if p.FieldConfig.Defaults.Unit == "" {
		say("no unit")
	}
	if !is(p.Datasource) || len(p.Targets) == 0 {
		say("another data source, or no targets")
	}
	for _, it := range p.Targets {
		if it.Expr == "" || it.RefID == "" || !is(it.Datasource) {
			say("target %q has no expression or another data source", it.RefID)
		}
	}
	return mistakes
}

// lintPosition fills the cells of the panel in Grafana's grid of 24 columns.
func lintPosition(p panel, cells map[[2]int]string) (mistakes []string) {
	at := p.GridPos
	if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 || at.Y < 0 {
		return []string{fmt.Sprintf("panel %q has the position %+v", p.Title, at)}
	}
	for x := at.X; x < at.X+at.W; x++ {
		for y := at.Y; y < at.Y+at.H; y++ {
			if other, taken := cells[[2]int{x, y}]; taken {
				return []string{fmt.Sprintf("panels %q and %q overlap", p.Title, other)}
			}
			cells[[2]int{x, y}] = p.Title
		}
	}
	return nil
}
