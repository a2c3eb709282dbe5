package chart

import (
	"bytes"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/kubeconfig"
	kubeadmconfig "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"
	"sigs.k8s.io/yaml"
)

// writeAuthority makes the certificate authority of the cluster, as `kubeadm init` does, and returns the file of its
// certificate.
func writeAuthority(dir string) (string, error) {
	certificate, key, err := pkiutil.NewCertificateAuthority(&pkiutil.CertConfig{Config: certutil.Config{CommonName: "kubernetes"}})
	if err != nil {
		return "", err
	}
	name := constants.CACertAndKeyBaseName
	return filepath.Join(dir, name+".crt"), pkiutil.WriteCertAndKey(dir, name, certificate, key)
}

// kubeconfigOfUser writes what `kubeadm kubeconfig user --client-name NAME` prints, with the address of this apiserver.
func kubeconfigOfUser(t *testing.T, file, name string) {
	t.Helper()
	config := initConfiguration(t)
	config.CertificatesDir = shared.authority
	var printed bytes.Buffer
	must(t, kubeconfig.WriteKubeConfigWithClientCert(&printed, config, name, nil, time.Now().Add(time.Hour)))
	made, err := clientcmd.Load(printed.Bytes())
	must(t, err)
	user := made.AuthInfos[name]
	if len(user.ClientCertificateData) == 0 {
		t.Fatalf("no certificate of %s: %s", name, &printed)
	}
	kubeconfigOf(t, file, user)
}

// schedulerPod is the static pod of kube-scheduler that kubeadm writes with this configuration and these patches.
func schedulerPod(t *testing.T, config *kubeadmapi.InitConfiguration, patches string) *corev1.Pod {
	t.Helper()
	dir := t.TempDir()
	must(t, controlplane.CreateStaticPodFiles(dir, patches, &config.ClusterConfiguration, &config.LocalAPIEndpoint, false, constants.KubeScheduler))
	return podFrom(t, constants.GetStaticPodFilepath(constants.KubeScheduler, dir))
}

func podFrom(t *testing.T, file string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	must(t, yaml.UnmarshalStrict([]byte(read(t, file)), pod))
	return pod
}

func initConfiguration(t *testing.T) *kubeadmapi.InitConfiguration {
	t.Helper()
	config, err := kubeadmconfig.DefaultedStaticInitConfiguration()
	must(t, err)
	return config
}
