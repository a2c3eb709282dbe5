package e2e

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// detached is the same request with its body already read, so that it outlives the client's connection.
func detached(r *http.Request) *http.Request {
	body, err := io.ReadAll(r.Body)
	copied := r.Clone(context.WithoutCancel(r.Context()))
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		// The reader gets the read error, if there was one.
		copied.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), failing{err}))
	}
	return copied
}

// failing is a reader that fails.
type failing struct{ err error }

// Read fails.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
