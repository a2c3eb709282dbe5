package observability

import (
	"context"
	"testing"

	policyapi "extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/tests/kube/scripted"
)

// startFlaky runs a policy until the end of the test, and returns its address. It accepts every node, and in every third call
// returns an error, in every seventh no answer at all.
func startFlaky(t *testing.T) (address string) {
	t.Helper()
	return startScripted(t, scripted.New("flaky", func(ctx context.Context, call int64, request *policyapi.FilterRequest) (*policyapi.FilterResponse, error) {
		switch {
		case call%3 == 0:
			return scripted.Fail(ctx, call, request)
		case call%7 == 0:
			return scripted.BeLate(ctx, call, request)
		}
		return scripted.Accept(ctx, call, request)
	}))
}

func startScripted(t *testing.T, policy *scripted.Policy) (address string) {
	t.Helper()
	server, err := scripted.Serve("127.0.0.1:0", policy.Register)
	must(t, err)
	t.Cleanup(func() { must(t, server.Stop()) })
	return server.Address
}
