package observability

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	root          = "../../.."
	folder        = root + "/deploy/observability"
	chartFiles    = root + "/deploy/chart/files"
	alertsFile    = chartFiles + "/alerts.yaml"
	alertCases    = folder + "/alerts_test.yaml"
	dashboardFile = chartFiles + "/dashboards/dashboard.json"
)

// rule is an alert.
type rule struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	must(t, yaml.Unmarshal([]byte(read(t, alertsFile)), &file))
	if len(file.Groups) != 1 || len(file.Groups[0].Rules) < 10 {
		t.Fatalf("%s has %v", alertsFile, file)
	}
	return file.Groups[0].Rules
}

// dashboard is the part of Grafana's model that the tests read.
type dashboard struct {
	SchemaVersion int
	Panels        []panel
	Templating    struct{ List []variable }
	Annotations   struct {
		List []struct {
			Name, Expr string
			Datasource *source
		}
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               *source
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []target
	// Panels are those of a collapsed row.
	Panels []panel
}

type target struct {
	RefID, Expr, LegendFormat string
	Datasource                *source
}

type source struct{ Type, UID string }

type variable struct {
	Name, Type, Definition string
	Query                  json.RawMessage
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	must(t, json.Unmarshal([]byte(read(t, dashboardFile)), &d))
	return d
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(file))
	must(t, err)
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
