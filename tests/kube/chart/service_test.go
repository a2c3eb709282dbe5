package chart

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestService applies deploy/kube-scheduler/service: the chart with its values, and the issuer of certificates. Its
// configurations of kube-scheduler are what the gateway prints; TestControlPlane runs one of the same form.
func TestService(t *testing.T) {
	const folder = deploy + "/kube-scheduler/service/"
	apply(t, manifests(t, read(t, "testdata/crds.yaml")))
	established(t)
	apply(t, manifests(t, read(t, deploy+"/install.yaml")))
	apply(t, manifests(t, read(t, folder+"issuer.yaml")))
	for _, tt := range []struct {
		name, values, config, url string
		options                   []string
	}{
		{"plain", "values.yaml", "scheduler-config.yaml", "http://10.96.88.88:8888", nil},
		{"tls", "values-tls.yaml", "scheduler-config-tls.yaml", "https://10.96.88.88:8888", []string{
			"--ca-file=/etc/kubernetes/kube-scheduler/gateway-ca.crt",
			"--cert-file=/etc/kubernetes/kube-scheduler/client.crt", "--key-file=/etc/kubernetes/kube-scheduler/client.key",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			// The address of a Service cannot be changed.
			err := shared.Client.CoreV1().Services("extender-gateway").Delete(t.Context(), "extender-gateway", metav1.DeleteOptions{})
			must(t, err)
			list := template(t, "extender-gateway", folder+tt.values)
			apply(t, list)
			createPods(t, list)
			expectPrinted(t, "service/"+tt.config, dataOf(t, list, "gateway.yaml"), tt.url, tt.options...)
		})
	}
}
