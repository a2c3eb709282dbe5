package plugin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// gatewayHeader is in a gateway's answer to a request that is none of kube-scheduler's.
	gatewayHeader = "X-Extender-Gateway-Error"
	// probeTimeout limits such a request. One without an answer is repeated after probeTimeout, and then after up to maxProbeInterval.
	probeTimeout     = time.Second
	maxProbeInterval = time.Minute
)

// prober does not care who an extender is: it is told nothing. A gateway at an address answers only callers with a certificate.
func (a args) prober() *http.Client {
	config := &tls.Config{InsecureSkipVerify: true}
	if a.address != "" {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.tls.own() }
	}
	return &http.Client{Timeout: probeTimeout, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: config}}
}

// refuseTwice is an error if an extender of kube-scheduler is a gateway, which would be asked twice about each pod. If some do not answer yet,
// they are asked until they do, and attempts fail from then on.
func (p *Plugin) refuseTwice(ctx context.Context, extenders []fwk.Extender) error {
	var urls []string
	for _, extender := range extenders {
		urls = append(urls, extender.Name())
	}
	prober := p.gateway.prober()
	twice, unknown := gatewayAmong(ctx, prober, urls)
	if twice != nil {
		return twice
	}
	go func() {
		for wait := probeTimeout; twice == nil && len(unknown) > 0; wait = min(2*wait, maxProbeInterval) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
				twice, unknown = gatewayAmong(ctx, prober, unknown)
			}
		}
		if twice != nil {
			p.twice.Store(&twice)
		}
	}()
	return nil
}

// gatewayAmong is an error that names the first of these extenders that is a gateway. unknown are those that do not answer.
func gatewayAmong(ctx context.Context, prober *http.Client, urls []string) (twice error, unknown []string) {
	for _, url := range urls {
		switch isGateway, err := isGateway(ctx, prober, url); {
		case err != nil:
			unknown = append(unknown, url)
		case isGateway:
			return fmt.Errorf("plugin %s: the extender %s is an extender-gateway, too, which would be asked twice about each pod: remove it from extenders", Name, url), nil
		}
	}
	return nil, unknown
}

func isGateway(ctx context.Context, prober *http.Client, url string) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, err
	}
	response, err := prober.Do(request)
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	return response.Header.Get(gatewayHeader) != "", nil
}
