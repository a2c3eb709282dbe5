package controlplane

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	"extender-gateway.io/tests/kube/binaries"
)

// SchedulerOptions are the differences between the schedulers of tests. The zero value is a default scheduler
// without extenders.
type SchedulerOptions struct {
	Extenders []configv1.Extender
	// Scores selects the plugins of kube-scheduler that score nodes in addition to the extenders.
	Scores InTreeScores
	// Without are disabled plugins of kube-scheduler, by name.
	Without []string
	// APICalls is how fast kube-scheduler may call the apiserver.
	APICalls APICalls
	// FeatureGates changes kube-scheduler's own defaults.
	FeatureGates map[string]bool
	// Release selects another kube-scheduler than that of this Go module.
	Release Release
	// GatewayPlugin has the arguments of the gateway's plugin as JSON; "" is a kube-scheduler without it.
	GatewayPlugin string
	// PluginRelease is the minor version of the kube-scheduler with the plugin, such as 1.36; "" is that of this Go module.
	PluginRelease string
	// PreviousPlugin is the file of a kube-scheduler with the plugin of the version before; "" is that of this version.
	PreviousPlugin string
}

// gatewayPlugin is the name of the plugin of gateway/plugin. Its weight is that of an extender with weight 1.
const (
	gatewayPlugin       = "ExtenderGateway"
	gatewayPluginWeight = 10
)

// program is the kube-scheduler for the options.
func (o SchedulerOptions) program() string {
	if o.PreviousPlugin != "" {
		return binaries.PluginScheduler + "-previous"
	}
	if o.GatewayPlugin != "" && o.PluginRelease != "" {
		return binaries.PluginScheduler + "-" + o.PluginRelease
	}
	if o.GatewayPlugin != "" {
		return binaries.PluginScheduler
	}
	return o.Release.program()
}

// gates are FeatureGates as a flag's value, sorted so that the same gates are the same text.
func (o SchedulerOptions) gates() string {
	var list []string
	for _, gate := range slices.Sorted(maps.Keys(o.FeatureGates)) {
		list = append(list, fmt.Sprintf("%s=%t", gate, o.FeatureGates[gate]))
	}
	return strings.Join(list, ",")
}

// InTreeScores selects kube-scheduler's own score plugins.
type InTreeScores int

const (
	// DefaultScores keeps kube-scheduler's default plugins.
	DefaultScores InTreeScores = iota
	// ExtenderScoresOnly disables them all, so that only the extenders' scores decide.
	ExtenderScoresOnly
)

// APICalls selects the rate limit of kube-scheduler's client.
type APICalls int

const (
	// Unlimited does not limit the scheduler.
	Unlimited APICalls = iota
	// DefaultLimit is kube-scheduler's default of 50 a second.
	DefaultLimit
)

// writeTo writes the KubeSchedulerConfiguration of the options.
func (o SchedulerOptions) writeTo(file, kubeconfig string) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.configuration(kubeconfig))
	if err != nil {
		return err
	}
	removeEmpty(fields)
	text, err := yaml.Marshal(fields)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}

// removeEmpty removes fields without a value. Of those are the plugins of extension points that an older kube-scheduler
// does not know, and it rejects unknown fields.
func removeEmpty(fields map[string]any) {
	for name, value := range fields {
		switch value := value.(type) {
		case nil:
			delete(fields, name)
		case map[string]any:
			if removeEmpty(value); len(value) == 0 {
				delete(fields, name)
			}
		case []any:
			for _, item := range value {
				if item, ok := item.(map[string]any); ok {
					removeEmpty(item)
				}
			}
		}
	}
}

func (o SchedulerOptions) configuration(kubeconfig string) *configv1.KubeSchedulerConfiguration {
	config := &configv1.KubeSchedulerConfiguration{
		TypeMeta:                 metav1.TypeMeta{APIVersion: o.Release.configurationVersion(), Kind: "KubeSchedulerConfiguration"},
		PodInitialBackoffSeconds: new(int64(1)),
		Profiles:                 []configv1.KubeSchedulerProfile{{Plugins: o.plugins()}},
		Extenders:                o.Extenders,
	}
	if o.GatewayPlugin != "" {
		args := runtime.RawExtension{Raw: []byte(o.GatewayPlugin)}
		config.Profiles[0].PluginConfig = []configv1.PluginConfig{{Name: gatewayPlugin, Args: args}}
	}
	config.LeaderElection.LeaderElect = new(false)
	config.ClientConnection.Kubeconfig = kubeconfig
	if o.APICalls == Unlimited {
		config.ClientConnection.QPS, config.ClientConnection.Burst = unlimitedQPS, unlimitedQPS
	}
	return config
}

func (o SchedulerOptions) plugins() *configv1.Plugins {
	plugins := &configv1.Plugins{}
	for _, name := range o.Without {
		plugins.MultiPoint.Disabled = append(plugins.MultiPoint.Disabled, configv1.Plugin{Name: name})
	}
	if o.GatewayPlugin != "" {
		plugins.MultiPoint.Enabled = []configv1.Plugin{{Name: gatewayPlugin, Weight: new(int32(gatewayPluginWeight))}}
		own := []configv1.Plugin{{Name: gatewayPlugin}}
		// Before kube-scheduler's own filters, which take longer than a look at the answer.
		plugins.Filter.Enabled = own
		// That of the version before neither preempts nor binds.
		if o.PreviousPlugin == "" {
			plugins.MultiPoint.Disabled = append(plugins.MultiPoint.Disabled, configv1.Plugin{Name: "DefaultPreemption"})
			plugins.Bind.Enabled = own
		}
	}
	if o.Scores == ExtenderScoresOnly {
		plugins.Score.Disabled = []configv1.Plugin{{Name: "*"}}
		// Where all are disabled, MultiPoint enables none.
		plugins.Score.Enabled = plugins.MultiPoint.Enabled
	}
	return plugins
}
