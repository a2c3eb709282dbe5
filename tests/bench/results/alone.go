package results

import (
	"encoding/json"
	"fmt"
	"os"
)

// Alone is the output of the benchmark of the gateway alone (the Rust program).
type Alone struct {
	Rounds int         `json:"rounds"`
	Cases  []AloneCase `json:"cases"`
	// Observability is the cost of observability.
	Observability []AloneObserved `json:"observability"`
	// Fleet is a large cluster with many policies, if it was measured.
	Fleet *AloneFleet `json:"fleet"`
}

// AloneFleet is filter calls that offer all nodes of a large cluster to many policies.
type AloneFleet struct {
	Nodes    int           `json:"nodes"`
	Policies int           `json:"policies"`
	Columns  []FleetColumn `json:"columns"`
}

// FleetColumn is policies of one declaration.
type FleetColumn struct {
	Name string `json:"name"`
	// P50 and P99 are of all calls, in microseconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// Memory is the gateway's, in bytes.
	Memory struct {
		Resident float64 `json:"resident"`
		Peak     float64 `json:"peak"`
	} `json:"memory"`
}

// AloneObserved is one kind of call to gateways with different observability.
type AloneObserved struct {
	// Case is a name such as "filter 420 names, per node".
	Case string `json:"case"`
	// Columns begin with the gateway without observability.
	Columns []AloneShown `json:"columns"`
}

// AloneShown is the cost of a call for one of these gateways.
type AloneShown struct {
	Name string `json:"name"`
	// Processor is microseconds of processor time.
	Processor AloneSpread `json:"processor"`
	// Ratio is to the first.
	Ratio AloneSpread `json:"ratio"`
}

// AloneCase is one kind of call.
type AloneCase struct {
	// Case is a name such as "filter 420 names".
	Case    string   `json:"case"`
	Columns []Column `json:"columns"`
}

// Column is one of the contenders.
type Column struct {
	Name string `json:"name"`
	// P50 and P99 are of all calls, in microseconds.
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	// RatioToFloorAndCalls is missing for the floor and the calls themselves.
	RatioToFloorAndCalls *AloneSpread `json:"ratio_to_floor_and_calls"`
}

// AloneSpread is the median of the rounds, and their range.
type AloneSpread struct {
	Least   float64 `json:"least"`
	Median  float64 `json:"median"`
	Largest float64 `json:"largest"`
}

// ReadAlone reads the results of the gateway alone.
func ReadAlone(file string) (alone Alone, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return alone, err
	}
	if err := json.Unmarshal(text, &alone); err != nil {
		return alone, fmt.Errorf("%s: %w", file, err)
	}
	return alone, nil
}
