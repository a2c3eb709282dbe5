// Package call makes HTTP requests whose answer must be 200.
package call

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Get is the body of the answer.
func Get(ctx context.Context, client *http.Client, url string) (body string, err error) {
	return send(ctx, client, http.MethodGet, url, "")
}

// Post sends JSON and returns the body of the answer.
func Post(ctx context.Context, url, body string) (answer string, err error) {
	return send(ctx, http.DefaultClient, http.MethodPost, url, body)
}

// JSON posts arguments and decodes the answer.
func JSON(ctx context.Context, url string, args, result any) error {
	body, err := json.Marshal(args)
	if err != nil {
		return err
	}
	answer, err := Post(ctx, url, string(body))
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(answer), result)
}

func send(ctx context.Context, client *http.Client, method, url, body string) (answer string, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s %s: %s: %s", method, url, response.Status, text)
	}
	return string(text), err
}
