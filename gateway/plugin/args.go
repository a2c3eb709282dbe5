package plugin

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
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
	// socket is the path of the gateway's socket: its extender.socket. "" if it is asked at its address.
	socket string
	// address is the host and port of the gateway's extender.address, "" if it is asked at its socket.
	address string
	// tls has the certificates of connections to the address.
	tls tlsFiles
	// timeout limits each call.
	timeout time.Duration
	// ignorable places pods without policies while no gateway answers.
	ignorable bool
}

// endpoint names where the gateway is.
func (a args) endpoint() string {
	if a.address != "" {
		return "address " + a.address
	}
	return "socket " + a.socket
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
	"address": func(a *args, value any) string {
		a.address, _ = value.(string)
		host, port, err := net.SplitHostPort(a.address)
		if number, _ := strconv.ParseUint(port, 10, 16); err != nil || host == "" || number == 0 {
			return "HOST:PORT of the gateway's extender.address, without https://"
		}
		return ""
	},
	// Its fields have names of their own.
	"tls":          func(*args, any) string { return "the fields caFile, certFile, keyFile and serverName" },
	"tls.caFile":   func(a *args, value any) string { return setFile(&a.tls.ca, value) },
	"tls.certFile": func(a *args, value any) string { return setFile(&a.tls.cert, value) },
	"tls.keyFile":  func(a *args, value any) string { return setFile(&a.tls.key, value) },
	"tls.serverName": func(a *args, value any) string {
		if a.tls.serverName, _ = value.(string); a.tls.serverName == "" {
			return "the name that the gateway's certificate has"
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

func setFile(file *string, value any) (expected string) {
	if *file, _ = value.(string); !filepath.IsAbs(*file) {
		return "the absolute path of a file"
	}
	return ""
}

// filesOfTLS are required with an address: it is never asked without TLS on both sides.
var filesOfTLS = []string{"tls.caFile", "tls.certFile", "tls.keyFile"}

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
	mistakes = append(mistakes, endpointMistakes(fields)...)
	if err := errors.Join(mistakes...); err != nil {
		return parsed, fmt.Errorf("args of plugin %s: %w", Name, err)
	}
	return parsed, nil
}

// endpointMistakes are those of fields that are right by themselves.
func endpointMistakes(fields map[string]any) (mistakes []error) {
	_, hasSocket := fields["socket"]
	_, hasAddress := fields["address"]
	switch {
	case hasSocket && hasAddress:
		return []error{errors.New("address: expected either socket or address: remove one of them")}
	case hasAddress:
		for _, name := range filesOfTLS {
			if _, isSet := fields[name]; !isSet {
				mistakes = append(mistakes, fmt.Errorf("%s: is required with address; expected the absolute path of a file", name))
			}
		}
	case !hasSocket:
		mistakes = append(mistakes, errors.New("socket: is required; expected the path that extender.socket has in the gateway's configuration, "+
			"or instead address and tls, for a gateway on another machine"))
	default:
		for _, name := range slices.Sorted(maps.Keys(fields)) {
			if strings.HasPrefix(name, "tls") {
				mistakes = append(mistakes, fmt.Errorf("%s: is for address; a socket has no TLS: remove it", name))
			}
		}
	}
	return mistakes
}

// fieldsOf decodes what kube-scheduler passes for a plugin whose arguments have no type. JSON is YAML. Fields of tls are named by
// their paths.
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
	if nested, isMap := fields["tls"].(map[string]any); isMap {
		delete(fields, "tls")
		for name, value := range nested {
			fields["tls."+name] = value
		}
	}
	return fields, nil
}
