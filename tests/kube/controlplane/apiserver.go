package controlplane

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"extender-gateway.io/tests/kube/binaries"
	"extender-gateway.io/tests/kube/ports"
	"extender-gateway.io/tests/kube/process"
)

// startAPIServer sets all fields of Cluster for access to the apiserver.
func (c *Cluster) startAPIServer(ctx context.Context) error {
	creds, err := newCredentials(c.Dir)
	if err != nil {
		return err
	}
	secure, err := c.reserve()
	if err != nil {
		return err
	}
	c.apiServerArgs = replaced(apiServerFlags(c.etcdURL, secure, creds), c.apiServerFlags)
	p, err := c.start(binaries.APIServer, c.apiServerArgs...)
	if err != nil {
		return err
	}
	c.apiServer = p
	if err := waitForCertificate(ctx, p, creds); err != nil {
		return err
	}
	if err := c.writeKubeconfig(secure.URL("https"), creds); err != nil {
		return err
	}
	return c.untilReady(ctx)
}

// Ready is nil when kube-apiserver is ready, which includes that it reaches etcd.
func (c *Cluster) Ready(ctx context.Context) error {
	return c.Client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

func (c *Cluster) untilReady(ctx context.Context) error {
	return c.apiServer.Until(ctx, "ready", c.Ready)
}

// RestartAPIServer kills kube-apiserver, calls meanwhile, and runs it again at the same address until it is ready.
func (c *Cluster) RestartAPIServer(ctx context.Context, meanwhile func()) error {
	if err := c.apiServer.Kill(); err != nil {
		return err
	}
	meanwhile()
	p, err := c.start(binaries.APIServer, c.apiServerArgs...)
	if err != nil {
		return err
	}
	c.apiServer = p
	return c.untilReady(ctx)
}

func apiServerFlags(etcd string, secure ports.Port, creds credentials) []string {
	return []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + secure.String(),
		"--permit-port-sharing",
		"--cert-dir=" + creds.certDir,
		"--token-auth-file=" + creds.tokenFile,
		"--authorization-mode=AlwaysAllow",
		"--service-account-key-file=" + creds.serviceAccountKey,
		"--service-account-signing-key-file=" + creds.serviceAccountKey,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.96.0.0/16",
		// An endpoint on loopback is invalid, and not needed.
		"--endpoint-reconciler-type=none",
		// Without controllers, nothing would create service accounts or remove the not-ready taint.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
	}
}

// replaced are the flags, without those that others has, too, and then the others. Some flags would be added to if they
// were repeated.
func replaced(flags, others []string) []string {
	name := func(flag string) string {
		name, _, _ := strings.Cut(flag, "=")
		return name
	}
	kept := slices.DeleteFunc(flags, func(flag string) bool {
		return slices.ContainsFunc(others, func(other string) bool { return name(other) == name(flag) })
	})
	return append(kept, others...)
}

func waitForCertificate(ctx context.Context, p *process.Process, creds credentials) error {
	return p.Until(ctx, "writing its certificate", func(context.Context) error {
		_, err := os.Stat(creds.serverKey())
		return err
	})
}

// writeKubeconfig writes the file that all clients use and makes Client from the same file.
func (c *Cluster) writeKubeconfig(url string, creds credentials) error {
	authority, err := os.ReadFile(creds.serverCertificate())
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: authority}
	config.AuthInfos["admin"] = &clientcmdapi.AuthInfo{Token: creds.token}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "admin"}
	config.CurrentContext = "test"
	c.Kubeconfig = filepath.Join(c.Dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, c.Kubeconfig); err != nil {
		return err
	}
	return c.connect()
}

func (c *Cluster) connect() (err error) {
	if c.REST, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	// A test's own client must never be the bottleneck.
	c.REST.QPS, c.REST.Burst = unlimitedQPS, unlimitedQPS
	c.REST.ContentType = "application/vnd.kubernetes.protobuf"
	c.Client, err = kubernetes.NewForConfig(c.REST)
	return err
}

// unlimitedQPS is more requests a second than any client here can make.
const unlimitedQPS = 100_000
