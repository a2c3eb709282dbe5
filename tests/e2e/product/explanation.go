package product

// Explanation is the part of what explain prints that tests read.
type Explanation struct {
	UID string `json:"uid"`
	// Pod is what the apiserver says.
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
	// Left is nil where the call ended with an error.
	Left     *int           `json:"left"`
	Backends []DecisionPart `json:"backends"`
	Nodes    []DecisionNode `json:"nodes"`
}

// DecisionPart is one backend's part in a call.
type DecisionPart struct {
	Name     string `json:"name"`
	Rejected int    `json:"rejected"`
}

// DecisionNode is what was said about one node.
type DecisionNode struct {
	Name       string `json:"name"`
	RejectedBy string `json:"rejectedBy"`
	Reason     string `json:"reason"`
	// Total is nil for a node that nobody scored.
	Total *int64 `json:"total"`
}

// Call is the latest attempt's call of a verb; nil when there is none.
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
