// Command kube-scheduler is the real kube-scheduler, built from k8s.io/kubernetes as a test dependency.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	// The blank imports register the client and version metrics, as the released binary does.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand()))
}
