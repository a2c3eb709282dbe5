// Command kube-scheduler is kube-scheduler with the plugin ExtenderGateway, which profiles enable.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	// The blank imports register the client and version metrics, as the released binary does.
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"extender-gateway.io/plugin"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(plugin.Name, newPreempting))))
}
