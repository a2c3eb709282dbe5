package collector

import (
	"maps"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/ports"
)

type object = map[string]any

// configuration forwards the data of either protocol to the log and to the receiver. There is no queue, no batch
// and no retry in between: when the collector has acknowledged data, the receiver has it.
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

// sinkConfiguration counts the data in the log, and drops it.
func sinkConfiguration(grpc, http ports.Port) object {
	return exporting(grpc, http, object{"debug": object{"verbosity": "basic"}})
}

// exporting forwards all data to all exporters.
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
