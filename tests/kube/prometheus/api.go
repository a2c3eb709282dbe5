package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// Series is one series of a query's answer.
type Series struct {
	Labels map[string]string
	// Value is as Prometheus writes it; NaN is a value, too.
	Value string
}

// Query evaluates a query now; its result must be a vector.
func (s *Server) Query(ctx context.Context, query string) (list []Series, err error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := s.get(ctx, "/api/v1/query?query="+url.QueryEscape(query), &data); err != nil {
		return nil, fmt.Errorf("%s: %w", query, err)
	}
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("%s is a %s", query, data.ResultType)
	}
	var series []struct {
		Metric map[string]string
		Value  [2]any
	}
	if err := json.Unmarshal(data.Result, &series); err != nil {
		return nil, err
	}
	for _, it := range series {
		list = append(list, Series{it.Metric, fmt.Sprint(it.Value[1])})
	}
	return list, nil
}

type rule struct{ Name, Health, LastError string }

func (s *Server) rules(ctx context.Context) (list []rule, err error) {
	var data struct {
		Groups []struct{ Rules []rule }
	}
	err = s.get(ctx, "/api/v1/rules", &data)
	for _, group := range data.Groups {
		list = append(list, group.Rules...)
	}
	return list, err
}

// get decodes the data of an answer.
func (s *Server) get(ctx context.Context, path string, data any) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// LabelValues are the values of a label in the series that the selector selects.
func (s *Server) LabelValues(ctx context.Context, label, selector string) (list []string, err error) {
	err = s.get(ctx, "/api/v1/label/"+url.PathEscape(label)+"/values?match[]="+url.QueryEscape(selector), &list)
	return list, err
}
