package collector

import (
	"os"

	"sigs.k8s.io/yaml"
)

type object = map[string]any

// configuration has what comes in by either protocol go to the log and to the receiver. There is no queue, no batch and
// no second try on the way: when the collector has acknowledged something, the receiver has it.
func configuration(grpc, http port, receiver string) object {
	pipeline := object{"receivers": []string{"otlp"}, "exporters": []string{"debug", "otlp_http"}}
	return object{
		"receivers": object{"otlp": object{"protocols": object{
			"grpc": object{"endpoint": grpc.address()},
			"http": object{"endpoint": http.address()},
		}}},
		"exporters": object{
			"debug": object{"verbosity": "detailed"},
			"otlp_http": object{
				"endpoint":         receiver,
				"encoding":         "json",
				"compression":      "none",
				"sending_queue":    object{"enabled": false},
				"retry_on_failure": object{"enabled": false},
			},
		},
		"service": object{
			"pipelines": object{"traces": pipeline, "metrics": pipeline},
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
