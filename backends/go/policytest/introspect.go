package policytest

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"extender-gateway.io/policy"
	"extender-gateway.io/policy/api/v1beta1"
)

// Introspect is the JSON of the page at this path with its query, such as "/quotas/shop?unit=cpu": what the gateway serves
// below /apis/v1/plugins/BACKEND. The error is [NoAnswer], as the gateway would respond, unless no page matches.
func Introspect(source policy.Source, path string) (string, error) {
	service, err := serviceOf(source)
	if err != nil {
		return "", err
	}
	info, err := service.GetInfo(context.Background(), &v1beta1.GetInfoRequest{})
	if err != nil {
		return "", noAnswer(err)
	}
	asked, err := url.Parse(path)
	if err != nil {
		return "", err
	}
	request, err := requested(info.GetIntrospection(), asked)
	if err != nil {
		return "", err
	}
	response, err := service.Introspect(context.Background(), request)
	return string(response.GetJson()), noAnswer(err)
}

// requested is for the declared path that matches: of several, the one whose first differing segment is not a parameter.
func requested(declared []*v1beta1.IntrospectionPath, asked *url.URL) (*v1beta1.IntrospectRequest, error) {
	var found *v1beta1.IntrospectRequest
	for _, page := range declared {
		parameters, matches := match(page.GetPath(), asked)
		if matches && (found == nil || isMoreExact(page.GetPath(), found.GetPath())) {
			found = &v1beta1.IntrospectRequest{Backend: "test", Path: page.GetPath(), Parameters: parameters}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no page matches %s", asked.Path)
	}
	found.Query = map[string]string{}
	for key, values := range asked.Query() {
		found.Query[key] = values[len(values)-1]
	}
	return found, nil
}

func match(path string, asked *url.URL) (map[string]string, bool) {
	declared, given := strings.Split(path, "/"), strings.Split(asked.EscapedPath(), "/")
	if len(declared) != len(given) {
		return nil, false
	}
	parameters := map[string]string{}
	for position, segment := range declared {
		value, err := url.PathUnescape(given[position])
		name, is := strings.CutPrefix(segment, ":")
		switch {
		case err != nil || is && value == "" || !is && value != segment:
			return nil, false
		case is:
			parameters[name] = value
		}
	}
	return parameters, true
}

func isMoreExact(path, than string) bool {
	one, two := strings.Split(path, "/"), strings.Split(than, "/")
	for position := range one {
		if parameter, other := strings.HasPrefix(one[position], ":"), strings.HasPrefix(two[position], ":"); parameter != other {
			return other
		}
	}
	return false
}
