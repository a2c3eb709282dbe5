package collector

import (
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/ports"
)

type object = map[string]any

// configuration has what comes in by either protocol go to the log and to the receiver. There is no queue, no batch and
// no second try on the way: when the collector has acknowledged something, the receiver has it.
func configuration(grpc, http ports.Port, receiver string) object {
	return exporting(grpc, http, object{
		"debug": object{"verbosity": "detailed"},
		"otlp_http": object{
			"endpoint":         receiver,
			"encoding":         "json",
			"compression":      "none",
			"sending_queue":    object{"enabled": false},
			"retry_on_failure": object{"enabled": false},
		},
	})
}

// sinkConfiguration has what comes in counted in the log, and dropped.
func sinkConfiguration(grpc, http ports.Port) object {
	return exporting(grpc, http, object{"debug": object{"verbosity": "basic"}})
}

// exporting gives all that comes in to all exporters.
func exporting(grpc, http ports.Port, exporters object) object {
	pipeline := object{"receivers": []string{"otlp"}, "exporters": slices.Sorted(maps.Keys(exporters))}
	return object{
		"receivers": object{"otlp": object{"protocols": object{
			"grpc": object{"endpoint": grpc.Address()},
			"http": object{"endpoint": http.Address()},
		}}},
		"exporters": exporters,
		"service": object{
			"pipelines": object{"traces": pipeline},
			// Its own metrics would take a fixed port.
			"telemetry": object{"metrics": object{"level": "none"}},
		},
	}
}

func writeConfiguration(file string, config object) error {
	text, err := yaml.Marshal(config)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
