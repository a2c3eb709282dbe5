package plugin

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
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

// prober does not care who an extender is: it is told nothing.
var prober = &http.Client{Timeout: probeTimeout, Transport: &http.Transport{
	DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
}}

// refuseTwice is an error if an extender of kube-scheduler is a gateway, which would be asked twice about each pod. If some do not answer yet,
// they are asked until they do, and attempts fail from then on.
func (p *Plugin) refuseTwice(ctx context.Context, extenders []fwk.Extender) error {
	var urls []string
	for _, extender := range extenders {
		// There the prober is not answered: it has no certificate.
		if at, err := url.Parse(extender.Name()); err == nil && at.Host != "" && at.Host == p.gateway.address {
			return askedTwice(extender.Name())
		}
		urls = append(urls, extender.Name())
	}
	twice, unknown := gatewayAmong(ctx, urls)
	if twice != nil {
		return twice
	}
	go func() {
		for wait := probeTimeout; twice == nil && len(unknown) > 0; wait = min(2*wait, maxProbeInterval) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
				twice, unknown = gatewayAmong(ctx, unknown)
			}
		}
		if twice != nil {
			p.twice.Store(&twice)
		}
	}()
	return nil
}

// gatewayAmong is an error that names the first of these extenders that is a gateway. unknown are those that do not answer.
func gatewayAmong(ctx context.Context, urls []string) (twice error, unknown []string) {
	for _, url := range urls {
		switch isGateway, err := isGateway(ctx, url); {
		case err != nil:
			unknown = append(unknown, url)
		case isGateway:
			return askedTwice(url), nil
		}
	}
	return nil, unknown
}

func askedTwice(url string) error {
	return fmt.Errorf("plugin %s: the extender %s is an extender-gateway, too, which would be asked twice about each pod: remove it from extenders", Name, url)
}

func isGateway(ctx context.Context, url string) (bool, error) {
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
