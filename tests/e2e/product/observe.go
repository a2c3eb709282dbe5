package product

// OTLP is the target of traces; empty fields are the gateway's defaults or come from OTEL_EXPORTER_OTLP_*.
type OTLP struct {
	Endpoint string `json:"endpoint,omitempty"`
	// Protocol is "grpc" or "http/protobuf".
	Protocol string `json:"protocol,omitempty"`
}

// Traces selects the calls that are traced.
type Traces struct {
	// Exporter is "OTLP" or "None".
	Exporter string `json:"exporter"`
	// Ratio is the share of pods, from 0 to 1.
	Ratio float64 `json:"ratio"`
	// KeepSlowerThan is the duration above which a call is kept although its pod is not in that share.
	KeepSlowerThan string `json:"keepSlowerThan,omitempty"`
	// PodAnnotation is the annotation with a W3C traceparent.
	PodAnnotation string `json:"podAnnotation,omitempty"`
}

// Decisions is the decision log.
type Decisions struct {
	// MaxBytes is its memory limit, in bytes; 0 switches it off.
	MaxBytes int64 `json:"maxBytes"`
}
