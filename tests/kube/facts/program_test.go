package facts

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/e2e/product"
)

// program answers requests about the gateway's facts.
const program = "extender-facts"

// usualSeed is the seed, unless the environment sets one.
const usualSeed = 1

// question is one line for the program: a quantity or a pod.
type question struct {
	Quantity *string `json:"quantity,omitempty"`
	Pod      *v1.Pod `json:"pod,omitempty"`
}

// amounts are kube-scheduler's units: thousandths of a CPU, bytes, and whole values of all others.
type amounts struct {
	MilliCPU         int64            `json:"milliCPU"`
	Memory           int64            `json:"memory"`
	EphemeralStorage int64            `json:"ephemeralStorage"`
	Pods             int64            `json:"pods"`
	Others           map[string]int64 `json:"others"`
}

// share is a pod's part of its node's usage.
type share struct {
	Requested amounts `json:"requested"`
	Nonzero   amounts `json:"nonzero"`
}

// answer is one line of the program.
type answer struct {
	Error string `json:"error"`

	Milli int64 `json:"milli"`
	Value int64 `json:"value"`

	Requests        amounts `json:"requests"`
	NonzeroRequests amounts `json:"nonzeroRequests"`
	Share           share   `json:"share"`
	Ended           bool    `json:"ended"`
}

// ask has the program answer all requests, in order.
func ask(t *testing.T, questions []question) []answer {
	t.Helper()
	path, err := product.Binary(program)
	if err != nil {
		t.Fatal(err)
	}
	var in, out, errors bytes.Buffer
	lines := json.NewEncoder(&in)
	for _, q := range questions {
		if err := lines.Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, path)
	command.Stdin, command.Stdout, command.Stderr = &in, &out, &errors
	if err := command.Run(); err != nil {
		t.Fatalf("%s: %v: %s", program, err, errors.String())
	}
	return read(t, &out, len(questions))
}

// read reads as many answers as there were requests.
func read(t *testing.T, out *bytes.Buffer, count int) []answer {
	t.Helper()
	var answers []answer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		answers = append(answers, a)
	}
	if err := lines.Err(); err != nil || len(answers) != count {
		t.Fatalf("%d questions, %d answers (%v)", count, len(answers), err)
	}
	return answers
}

// seed is the seed of the cases. Equal seeds give equal cases.
func seed(t *testing.T) int64 {
	t.Helper()
	seed := int64(usualSeed)
	if text := os.Getenv("FACTS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseInt(text, 10, 64); err != nil {
			t.Fatalf("FACTS_SEED: %v", err)
		}
	}
	t.Logf("FACTS_SEED=%d", seed)
	return seed
}
