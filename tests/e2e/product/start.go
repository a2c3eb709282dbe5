package product

import (
	"context"
	"os"
	"os/exec"

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
	server, err = serveGateway(ctx, process.Program{Name: Gateway, Dir: dir, Path: path, Args: []string{"serve", "--config", file}})
	return server, file, err
}

// StartGatewayWithHosts is StartGateway with this file in place of /etc/hosts, so that the host of a backend can have several
// addresses. Who is not root must be allowed to create namespaces.
func StartGatewayWithHosts(ctx context.Context, dir, hosts string, config Config) (*process.Server, error) {
	path, err := Binary(Gateway)
	if err != nil {
		return nil, err
	}
	file, err := config.write(dir)
	if err != nil {
		return nil, err
	}
	const inMountNamespace = `mount --bind "$0" /etc/hosts && exec "$@"`
	args := []string{"--mount", "sh", "-c", inMountNamespace, hosts, path, "serve", "--config", file}
	if os.Geteuid() != 0 {
		args = append([]string{"--map-root-user"}, args...)
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return nil, err
	}
	return serveGateway(ctx, process.Program{Name: Gateway, Dir: dir, Path: unshare, Args: args})
}

func serveGateway(ctx context.Context, program process.Program) (*process.Server, error) {
	return process.Serve(ctx, program, "extender listening on")
}

// StartLabelRules runs the label-rules policy of the given name at the address, with further flags; port 0 takes any free one.
func StartLabelRules(ctx context.Context, dir, name, rules, address string, flags ...string) (*process.Server, error) {
	args := append([]string{LabelRules, "--rules", rules, "--name", name, "--address", address}, flags...)
	return serve(ctx, dir, Policies, name, "listening on", args...)
}

// StartLabelBinder runs the backend that binds pods and copies labels of their node to them as annotations.
func StartLabelBinder(ctx context.Context, dir, kubeconfig string) (*process.Server, error) {
	return serve(ctx, dir, Policies, LabelBinder, "listening on", LabelBinder, "--kubeconfig", kubeconfig, "--address", "127.0.0.1:0")
}

// StartReservation runs a replica of the policy of Reservations, which competes for a Lease in this namespace.
func StartReservation(ctx context.Context, dir, kubeconfig, namespace, identity string) (*process.Server, error) {
	return serve(ctx, dir, Policies, ReservationPolicy, "listening on", ReservationPolicy, "--kubeconfig", kubeconfig,
		"--lease-namespace", namespace, "--identity", identity, "--address", "127.0.0.1:0")
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
