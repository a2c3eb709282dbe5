package plugin

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestArgsAreRefusedWithTheFieldAndWhatIsExpected(t *testing.T) {
	tooLong := "/" + strings.Repeat("a", maxSocketBytes)
	for title, c := range map[string]struct {
		args runtime.Object
		says []string
	}{
		"none":              {nil, []string{"socket: is required", "extender.socket"}},
		"empty":             {&runtime.Unknown{}, []string{"socket: is required"}},
		"of a type":         {&corev1.Pod{}, []string{"expected JSON or YAML"}},
		"no fields":         {yamlArgs("- a"), []string{"expected fields"}},
		"a typo":            {yamlArgs("sokcet: /run/s"), []string{"sokcet: unknown field", "ignorable, socket, timeout", "socket: is required"}},
		"a field twice":     {yamlArgs("socket: /a\nsocket: /b"), []string{`"socket"`}},
		"a relative socket": {yamlArgs("socket: run/s"), []string{"socket: expected the absolute path"}},
		"a socket's URL":    {yamlArgs("socket: unix:///run/s"), []string{"socket: expected the absolute path"}},
		"a long socket":     {yamlArgs("socket: " + tooLong), []string{"socket: expected", "at most 107 bytes"}},
		"a number":          {yamlArgs("socket: 8888"), []string{"socket: expected", "not 8888"}},
		"a time in seconds": {yamlArgs("socket: /s\ntimeout: 5"), []string{"timeout: expected a positive duration"}},
		"no time":           {yamlArgs("socket: /s\ntimeout: 0s"), []string{"timeout: expected a positive duration"}},
		"a text":            {yamlArgs("socket: /s\nignorable: 'yes'"), []string{"ignorable: expected true or false"}},
		"two endpoints":     {yamlArgs("socket: /s\naddress: gateway:8888"), []string{"address: expected either socket or address"}},
		"no port":           {yamlArgs("address: gateway"), []string{"address: expected HOST:PORT", `not "gateway"`}},
		"no host":           {yamlArgs("address: ':8888'"), []string{"address: expected HOST:PORT"}},
		"port 0":            {yamlArgs("address: gateway:0"), []string{"address: expected HOST:PORT"}},
		"a name of a port":  {yamlArgs("address: gateway:https"), []string{"address: expected HOST:PORT"}},
		"an address's URL":  {yamlArgs("address: https://gateway:8888"), []string{"address: expected HOST:PORT", "without https://"}},
		"no TLS":            {yamlArgs("address: gateway:8888"), []string{"tls.caFile: is required with address", "tls.certFile: is", "tls.keyFile: is"}},
		"TLS without a key": {yamlArgs("address: gateway:8888\ntls: {caFile: /ca, certFile: /crt}"), []string{"tls.keyFile: is required"}},
		"TLS at a socket":   {yamlArgs("socket: /s\ntls: {keyFile: /key}"), []string{"tls.keyFile: is for address", "remove it"}},
		"TLS turned on":     {yamlArgs("address: gateway:8888\ntls: true"), []string{"tls: expected the fields caFile, certFile, keyFile and serverName, not true"}},
		"no verification":   {yamlArgs("address: gateway:8888\ntls: {insecure: true}"), []string{"tls.insecure: unknown field", "tls.serverName"}},
		"a relative file":   {yamlArgs("address: gateway:8888\ntls: {caFile: ca.crt}"), []string{"tls.caFile: expected the absolute path of a file"}},
		"an empty name":     {yamlArgs("address: gateway:8888\ntls: {serverName: ''}"), []string{"tls.serverName: expected the name"}},
		"all":               {yamlArgs("ignorable: 1\ntimeout: 1"), []string{"ignorable:", "timeout:", "socket:"}},
	} {
		t.Run(title, func(t *testing.T) {
			_, err := New(t.Context(), c.args, nil)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, text := range append(c.says, "args of plugin ExtenderGateway") {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%q is not in: %v", text, err)
				}
			}
		})
	}
}

func TestArgs(t *testing.T) {
	json := &runtime.Unknown{Raw: []byte(`{"socket": "/run/s", "timeout": "1m", "ignorable": true}`), ContentType: runtime.ContentTypeJSON}
	for _, c := range []struct {
		args runtime.Object
		want args
	}{
		{json, args{socket: "/run/s", timeout: time.Minute, ignorable: true}},
		{yamlArgs("socket: /run/s"), args{socket: "/run/s", timeout: 5 * time.Second}},
		{
			yamlArgs("address: '[::1]:8888'\ntls: {caFile: /ca, certFile: /crt, keyFile: /key, serverName: gateway}"),
			args{address: "[::1]:8888", tls: tlsFiles{ca: "/ca", cert: "/crt", key: "/key", serverName: "gateway"}, timeout: 5 * time.Second},
		},
	} {
		if got, err := parseArgs(c.args); err != nil || got != c.want {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestTwoProfilesUseOneGateway(t *testing.T) {
	first := newPlugin(t, "/run/a", "")
	second := newPlugin(t, "/run/a", "timeout: 1s")
	if _, err := New(t.Context(), yamlArgs("socket: /run/b"), nil); err == nil || !strings.Contains(err.Error(), "socket /run/a, as in another profile, not socket /run/b") {
		t.Errorf("a second gateway: %v", err)
	}
	for _, p := range []*Plugin{first, second} {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	newPlugin(t, "/run/b", "")
	// Cleanup closes the first two again.
	instances.count += 2
}
