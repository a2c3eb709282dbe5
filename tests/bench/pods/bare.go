package main

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/emptypb"
	corev1 "k8s.io/api/core/v1"

	"extender-gateway.io/tests/kube/objects"
	"extender-gateway.io/tests/kube/process"
)

// bare is kube-scheduler with the plugin and a gateway that does nothing: the floor of plugin with per-node policies, which also has one
// call for each pod, and as many rejected nodes. Pure policies can be faster: most pods get an answer that was kept.
const bare = "bare"

// startBare starts that gateway as a process of its own, so that its costs are counted.
func (e *extenders) startBare(ctx context.Context) error {
	socket := filepath.Join(e.stage.cluster.Dir, "plugin.sock")
	// That of the round before, if there is one.
	_ = os.Remove(socket)
	answer := hex.EncodeToString(constantAnswer(e.stage.policies, objects.Nodes(e.stage.nodes)))
	program := process.Program{Name: bare, Dir: e.stage.cluster.Dir, Path: "/proc/self/exe", Args: []string{bare, socket, answer}}
	server, err := process.Serve(ctx, program, "listening on")
	return e.askByPlugin(socket, server, err)
}

// constantAnswer is a PlaceResponse. kube-scheduler lists the nodes in another order: not the policies' nodes are rejected, but as many.
func constantAnswer(policies []policy, nodes []*corev1.Node) []byte {
	var positions []byte
	for i, node := range nodes {
		if slices.ContainsFunc(policies, func(p policy) bool { return node.Labels[p.refuse.key] == p.refuse.value }) {
			positions = protowire.AppendVarint(positions, uint64(i))
		}
	}
	rejection := append(field(1, []byte("no reason")), field(3, positions)...)
	// Totals without values: all scores are equal, so there is no call for them.
	return field(1, append(field(1, rejection), field(2, nil)...))
}

// field is one of a protobuf message.
func field(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}

// serveBare is that process. It has the methods that are called if nothing is kept and each pod finds a node.
func serveBare(socket, answer string) error {
	encoded, err := hex.DecodeString(answer)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	// A message without fields takes any encoded one as it is.
	placed := &emptypb.Empty{}
	placed.ProtoReflect().SetUnknown(encoded)
	service := grpc.ServiceDesc{ServiceName: "extender.door.v1alpha1.DoorService"}
	for name, response := range map[string]*emptypb.Empty{"Place": placed, "Tell": {}} {
		handler := func(_ any, _ context.Context, read func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			return response, read(&emptypb.Empty{})
		}
		service.Methods = append(service.Methods, grpc.MethodDesc{MethodName: name, Handler: handler})
	}
	server := grpc.NewServer()
	server.RegisterService(&service, nil)
	fmt.Println("listening on", socket)
	return server.Serve(listener)
}
