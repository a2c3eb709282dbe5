package product

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"

	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"
)

// SchedulerConfig runs `extender-gateway scheduler-config` with these options and reads its output.
func SchedulerConfig(ctx context.Context, dir string, config Config, options ...string) ([]configv1.Extender, error) {
	out, err := SchedulerConfigText(ctx, dir, config, options...)
	if err != nil {
		return nil, err
	}
	var printed struct {
		Extenders []configv1.Extender `json:"extenders"`
	}
	err = yaml.UnmarshalStrict(out, &printed)
	return printed.Extenders, err
}

// SchedulerConfigText is the output itself.
func SchedulerConfigText(ctx context.Context, dir string, config Config, options ...string) ([]byte, error) {
	binary, err := Binary(Gateway)
	if err != nil {
		return nil, err
	}
	file, err := config.write(dir)
	if err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, binary, append([]string{"scheduler-config", "--config", file}, options...)...)
	var said bytes.Buffer
	command.Stderr = &said
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("scheduler-config: %w: %s", err, said.String())
	}
	return out, nil
}
