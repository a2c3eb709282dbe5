package product

// Explanation is the part of explain's output that tests read.
type Explanation struct {
	UID string `json:"uid"`
	// Pod is the apiserver's state.
	Pod struct {
		Node string `json:"node"`
	} `json:"pod"`
	// Attempts are the newest first.
	Attempts []Attempt `json:"attempts"`
}

// Attempt is a filter call and what followed it.
type Attempt struct {
	Calls []Decision `json:"calls"`
}

// Decision is one call, as the decision log has it.
type Decision struct {
	Verb    string `json:"verb"`
	Outcome string `json:"outcome"`
	Offered int    `json:"offered"`
	// Left is nil if the call ended with an error.
	Left     *int           `json:"left"`
	Backends []DecisionPart `json:"backends"`
	Nodes    []DecisionNode `json:"nodes"`
}

// DecisionPart is one backend's part in a call.
type DecisionPart struct {
	Name     string `json:"name"`
	Rejected int    `json:"rejected"`
	// Hook is empty for the verb of the call.
	Hook      string `json:"hook"`
	Changed   int    `json:"changed"`
	PodChange string `json:"podChange"`
}

// DecisionNode is the decision about one node.
type DecisionNode struct {
	Name       string `json:"name"`
	RejectedBy string `json:"rejectedBy"`
	Reason     string `json:"reason"`
	// Total is nil for a node without a score.
	Total   *int64       `json:"total"`
	Changes []NodeChange `json:"changes"`
}

// NodeChange is what a hook changed of a node.
type NodeChange struct {
	Backend string `json:"backend"`
	Change  string `json:"change"`
}

// Call is the latest attempt's call of a verb; nil if there is none.
func (e Explanation) Call(verb string) *Decision {
	if len(e.Attempts) == 0 {
		return nil
	}
	calls := e.Attempts[0].Calls
	for i := len(calls) - 1; i >= 0; i-- {
		if calls[i].Verb == verb {
			return &calls[i]
		}
	}
	return nil
}
