package plugin

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	// defaultTimeout is that of an extender's httpTimeout.
	defaultTimeout = 5 * time.Second
	// maxSocketBytes is the longest path that fits into sockaddr_un, with its end.
	maxSocketBytes = 107
)

// args are the plugin's settings in the profile: pluginConfig[].args.
type args struct {
	// socket is the path of the gateway's socket: its extender.socket.
	socket string
	// timeout limits each call.
	timeout time.Duration
	// ignorable places pods without policies while no gateway answers.
	ignorable bool
}

// setters are the fields of the arguments, by name. Each returns what it expects if the value is something else.
var setters = map[string]func(a *args, value any) (expected string){
	"socket": func(a *args, value any) string {
		var isText bool
		if a.socket, isText = value.(string); !isText || !filepath.IsAbs(a.socket) || len(a.socket) > maxSocketBytes {
			return fmt.Sprintf("the absolute path of the gateway's Unix socket, of at most %d bytes", maxSocketBytes)
		}
		return ""
	},
	"timeout": func(a *args, value any) string {
		text, _ := value.(string)
		var err error
		if a.timeout, err = time.ParseDuration(text); err != nil || a.timeout <= 0 {
			return `a positive duration, such as "5s"`
		}
		return ""
	},
	"ignorable": func(a *args, value any) string {
		var isBool bool
		if a.ignorable, isBool = value.(bool); !isBool {
			return "true or false"
		}
		return ""
	},
}

// parseArgs reports all mistakes together.
func parseArgs(object runtime.Object) (args, error) {
	parsed := args{timeout: defaultTimeout}
	fields, err := fieldsOf(object)
	if err != nil {
		return parsed, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	var mistakes []error
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		set, isKnown := setters[name]
		if !isKnown {
			mistakes = append(mistakes, fmt.Errorf("%s: unknown field; expected one of %s", name, strings.Join(slices.Sorted(maps.Keys(setters)), ", ")))
		} else if expected := set(&parsed, fields[name]); expected != "" {
			mistakes = append(mistakes, fmt.Errorf("%s: expected %s, not %#v", name, expected, fields[name]))
		}
	}
	if _, isSet := fields["socket"]; !isSet {
		mistakes = append(mistakes, errors.New("socket: is required; expected the path that extender.socket has in the gateway's configuration"))
	}
	if err := errors.Join(mistakes...); err != nil {
		return parsed, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	return parsed, nil
}

// fieldsOf decodes what kube-scheduler passes for a plugin whose arguments have no type. JSON is YAML.
func fieldsOf(object runtime.Object) (fields map[string]any, err error) {
	if object == nil {
		return nil, nil
	}
	unknown, isUnknown := object.(*runtime.Unknown)
	if !isUnknown {
		return nil, fmt.Errorf("expected JSON or YAML, not %T", object)
	}
	if err := yaml.UnmarshalStrict(unknown.Raw, &fields); err != nil {
		return nil, fmt.Errorf("expected fields with values: %w", err)
	}
	return fields, nil
}
