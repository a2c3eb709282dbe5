// Package bench measures calls with 500 nodes on a real socket, with the reference policy's rules.
package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"extender-gateway.io/policy/api/v1alpha1"
)

const nodes = 500

var args = []byte(`{"zone":"z9","most":3}`)

// BenchmarkCall is one call at a time to the reference policy in a process of its own.
func BenchmarkCall(b *testing.B) {
	client, tables := start(b)
	info, err := client.GetInfo(context.Background(), &v1alpha1.GetInfoRequest{Args: args})
	if err != nil {
		b.Fatal(err)
	}
	reads := info.GetVerbs()[0].GetReads()
	table := fill(b, tables, reads.GetNode())
	call := &v1alpha1.Call{Id: "c", Purpose: v1alpha1.Purpose_PURPOSE_DECIDE, Gateway: "g", Backend: "b", Args: args, Reads: reads.GetId()}
	pod := &v1alpha1.Pod{Facts: &v1alpha1.PodFacts{
		LabelValues: []string{"web"}, Owner: &v1alpha1.OwnerReference{Uid: "owner-7"}, Requests: &v1alpha1.Resources{MilliCpu: 500},
		Tolerations: []*v1alpha1.Toleration{{Key: "gpu", Operator: "Exists"}},
	}}
	inline := &v1alpha1.Nodes{Count: nodes, Form: &v1alpha1.Nodes_Rows{Rows: &v1alpha1.NodeRows{Rows: rows()}}}
	for name, form := range map[string]*v1alpha1.Nodes{"table": table, "inline": inline} {
		b.Run("filter/"+name, func(b *testing.B) {
			for b.Loop() {
				response, err := client.Filter(context.Background(), &v1alpha1.FilterRequest{Call: call, Pod: pod, Nodes: form})
				if err != nil || response.GetResult().GetEvaluated() != nodes {
					b.Fatal(response, err)
				}
			}
		})
		b.Run("filter and scores/"+name, func(b *testing.B) {
			for b.Loop() {
				response, err := client.Filter(context.Background(), &v1alpha1.FilterRequest{Call: call, Pod: pod, Nodes: form, WantScores: true})
				if err != nil || len(response.GetScores().GetValues()) != nodes {
					b.Fatal(response, err)
				}
			}
		})
		b.Run("score/"+name, func(b *testing.B) {
			for b.Loop() {
				response, err := client.Score(context.Background(), &v1alpha1.ScoreRequest{Call: call, Pod: pod, Nodes: form})
				if err != nil || len(response.GetScores().GetValues()) != nodes {
					b.Fatal(response, err)
				}
			}
		})
	}
}

func start(b *testing.B) (v1alpha1.PolicyServiceClient, v1alpha1.NodeTableServiceClient) {
	program := filepath.Join(b.TempDir(), "reference")
	build := exec.Command("go", "build", "-o", program, "extender-gateway.io/policy/examples/reference")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		b.Fatal(err)
	}
	running := exec.Command(program)
	running.Stderr = os.Stderr
	stdout, err := running.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := running.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = running.Process.Kill()
		_ = running.Wait()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		b.Fatal(err)
	}
	address := strings.TrimSpace(strings.TrimPrefix(line, "listening on "))
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = connection.Close() })
	return v1alpha1.NewPolicyServiceClient(connection), v1alpha1.NewNodeTableServiceClient(connection)
}

// rows are nodes of which every fifth is rejected.
func rows() []*v1alpha1.NodeRow {
	rows := make([]*v1alpha1.NodeRow, nodes)
	for position := range rows {
		row := &v1alpha1.NodeRow{Name: fmt.Sprintf("node-%03d", position), Facts: &v1alpha1.NodeFacts{
			LabelValues: []string{fmt.Sprintf("z%d", position%3)}, Allocatable: &v1alpha1.Resources{MilliCpu: 16_000, Memory: 64 << 30, Pods: 110},
			Taints: []*v1alpha1.Taint{{Key: "gpu", Effect: "NoSchedule"}},
		}}
		counts := &v1alpha1.PodCounts{}
		for owner := range 10 {
			counts.Counts = append(counts.Counts, &v1alpha1.PodCount{Value: fmt.Sprintf("owner-%d", owner), Pods: uint32(1 + position%5/2)})
		}
		row.PodCounts = []*v1alpha1.PodCounts{counts}
		rows[position] = row
	}
	return rows
}

func fill(b *testing.B, client v1alpha1.NodeTableServiceClient, reads *v1alpha1.NodeReads) *v1alpha1.Nodes {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	stream, err := client.SyncNodes(ctx)
	if err != nil {
		b.Fatal(err)
	}
	name := uint64(time.Now().UnixNano())
	message := &v1alpha1.SyncNodesRequest{
		Table: name, Version: 1, Complete: true, View: &v1alpha1.TableView{NodeView: v1alpha1.NodeView_NODE_VIEW_FACTS, Reads: reads},
	}
	ids := make([]uint32, nodes)
	for position, row := range rows() {
		ids[position] = uint32(position) + 1
		message.Upserts = append(message.Upserts, &v1alpha1.TableEntry{Id: ids[position], Row: row})
	}
	if err := stream.Send(message); err != nil {
		b.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		b.Fatal(err)
	}
	return &v1alpha1.Nodes{Count: nodes, Form: &v1alpha1.Nodes_Table{Table: &v1alpha1.NodeRef{Table: name, AtLeast: 1, Ids: ids}}}
}
