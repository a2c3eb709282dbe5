package observability

import (
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// TestGrafanaKnowsAllFields reads the dashboard with Grafana's own model, strictly: a field that it does not know, or one that
// is missing, is an error, also in the options of each kind of panel.
func TestGrafanaKnowsAllFields(t *testing.T) {
	plugins.RegisterDefaultPlugins()
	var d grafana.Dashboard
	// Without mistakes it returns an empty list of errors, which is not nil.
	if err := d.UnmarshalJSONStrict([]byte(read(t, dashboardFile))); err != nil && err.Error() != "" {
		t.Error(err)
	}
	must(t, d.Validate())
}
