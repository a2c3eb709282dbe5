package results

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Here is the environment of this machine and checkout. Call it with tests/ as working directory.
func Here() (Environment, error) {
	commit, notGit := output("git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*")
	kubernetes, noModule := output("go", "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
	kernel, noKernel := os.ReadFile("/proc/sys/kernel/osrelease")
	processor, noProcessor := processor()
	return Environment{
		Date:       time.Now().UTC().Format(time.DateOnly),
		Commit:     commit,
		Cores:      runtime.NumCPU(),
		Processor:  processor,
		Kernel:     strings.TrimSpace(string(kernel)),
		Kubernetes: kubernetes,
		Go:         runtime.Version(),
	}, errors.Join(notGit, noModule, noKernel, noProcessor)
}

// processor is the model as the system reports it; virtual machines often have no real name.
func processor() (string, error) {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value), nil
		}
	}
	return runtime.GOARCH, nil
}

func output(program string, args ...string) (string, error) {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
