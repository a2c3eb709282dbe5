package product

import (
	"context"

	"extender-gateway.io/tests/kube/process"
)

// StartGateway runs the gateway until its extender port listens. Files and logs go to dir.
func StartGateway(ctx context.Context, dir string, config Config) (*process.Server, error) {
	path, err := Binary(Gateway)
	if err != nil {
		return nil, err
	}
	return StartGatewayAt(ctx, path, dir, config)
}

// StartGatewayAt is StartGateway with the binary at this path, which may be of another version.
func StartGatewayAt(ctx context.Context, path, dir string, config Config) (*process.Server, error) {
	server, _, err := StartGatewayOfFile(ctx, path, dir, config)
	return server, err
}

// StartGatewayOfFile is StartGatewayAt and also returns the file of the configuration, which the gateway follows.
func StartGatewayOfFile(ctx context.Context, path, dir string, config Config) (server *process.Server, file string, err error) {
	file, err = config.write(dir)
	if err != nil {
		return nil, "", err
	}
	program := process.Program{Name: Gateway, Dir: dir, Path: path, Args: []string{"serve", "--config", file}}
	server, err = process.Serve(ctx, program, "extender listening on")
	return server, file, err
}

// StartLabelRules runs the label-rules policy of the given name at the address; port 0 takes any free one.
func StartLabelRules(ctx context.Context, dir, name, rules, address string) (*process.Server, error) {
	return serve(ctx, dir, Policies, name, "listening on", LabelRules, "--rules", rules, "--name", name, "--address", address)
}

// StartLabelBinder runs the backend that binds pods and copies labels of their node to them as annotations.
func StartLabelBinder(ctx context.Context, dir, kubeconfig string) (*process.Server, error) {
	return serve(ctx, dir, Policies, LabelBinder, "listening on", LabelBinder, "--kubeconfig", kubeconfig, "--address", "127.0.0.1:0")
}

// StartNodePolicy runs node-resources, node-affinity, spread or http-extender.
func StartNodePolicy(ctx context.Context, dir, policy string) (*process.Server, error) {
	return serve(ctx, dir, Policies, policy, "listening on", policy, "--address", "127.0.0.1:0")
}

// StartEcho runs the extender that keeps every node and gives each a score without reading them.
func StartEcho(ctx context.Context, dir string) (*process.Server, error) {
	return serve(ctx, dir, EchoExtender, EchoExtender, "listening on", "--address", "127.0.0.1:0")
}

func serve(ctx context.Context, dir, binary, name, announcement string, args ...string) (*process.Server, error) {
	path, err := Binary(binary)
	if err != nil {
		return nil, err
	}
	return process.Serve(ctx, process.Program{Name: name, Dir: dir, Path: path, Args: args}, announcement)
}
