package chart

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestAPolicyOfTheSDKServesTheCertificates runs a program of the SDK with the arguments and the Secret of a policy with an image of
// its own, and expects the gateway to reach it with its configuration and its Secret, and nobody without a certificate to.
func TestAPolicyOfTheSDKServesTheCertificates(t *testing.T) {
	got := withValues(t, "config: {pods: {source: Watch}}\npolicies: [{name: mine, image: {repository: a, tag: b}, args: {zone: a}, filter: {}}]")
	if got.err != nil {
		t.Fatal(got.stderr)
	}
	list, dir := objects(t, got.stdout), t.TempDir()
	files := map[string]string{"/etc/extender-policy-tls": "policy-server", "/etc/extender-gateway/policy-tls": "policy-client"}
	var moved []string
	for folder, secret := range files {
		to := filepath.Join(dir, secret)
		moved = append(moved, folder, to)
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"tls.crt", "tls.key", "ca.crt"} {
			if err := os.WriteFile(filepath.Join(to, key), decoded(t, find(t, list, "Secret", release+"-"+secret), key), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	args := strings.NewReplacer(append(moved, "0.0.0.0:9000", "127.0.0.1:0")...).Replace(argsOf(policyContainer(t, list, "mine")))
	address := serving(t, strings.Fields(args))

	const host = release + "-mine." + release + ".svc"
	here := append(moved, "https://"+host+":9000", "https://"+address, "    keyFile:", "    serverName: "+host+"\n    keyFile:")
	config := strings.NewReplacer(here...).Replace(configuration(t, list))
	ask := func(config string) result {
		return run(t, config, gateway(t), "check-config", "--ask", "--config", "-")
	}
	if got := ask(config); got.err != nil {
		t.Errorf("%s%s", got.stderr, config)
	}
	without := config[:strings.Index(config, "    certFile:")] + "    serverName: " + host + config[strings.Index(config, "\n  url:"):]
	if got := ask(without); got.err == nil || !strings.Contains(got.stderr, "backends[0].url: handshake failed") {
		t.Errorf("without a client certificate: %v\n%s%s", got.err, got.stderr, without)
	}
}

// serving starts the SDK's reference policy, and is the address that it prints.
func serving(t *testing.T, args []string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(filepath.Dir(gateway(t)), "examples", "reference"), args...)
	command.Stderr = os.Stderr
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if _, address, found := strings.Cut(lines.Text(), "listening on "); found {
			return strings.TrimSpace(address)
		}
	}
	t.Fatalf("%v is not listening", command.Args)
	return ""
}
