package product

// OTLP says where traces go; what is empty is the gateway's default or comes from OTEL_EXPORTER_OTLP_*.
type OTLP struct {
	Endpoint string `json:"endpoint,omitempty"`
	// Protocol is "grpc" or "http/protobuf".
	Protocol string `json:"protocol,omitempty"`
}

// Traces says which calls are traced.
type Traces struct {
	// Exporter is "OTLP" or "None".
	Exporter string `json:"exporter"`
	// Ratio is the share of pods, from 0 to 1.
	Ratio float64 `json:"ratio"`
	// KeepSlowerThan is from when on a call is kept although its pod is not in that share.
	KeepSlowerThan string `json:"keepSlowerThan,omitempty"`
	// PodAnnotation is the annotation with a W3C traceparent.
	PodAnnotation string `json:"podAnnotation,omitempty"`
}

// Decisions is the log of decisions.
type Decisions struct {
	// MaxBytes is what it may take, in bytes; 0 switches it off.
	MaxBytes int64 `json:"maxBytes"`
}
