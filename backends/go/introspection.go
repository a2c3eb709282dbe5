package policy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

const (
	// pageTimeout is how long the gateway waits for a page.
	pageTimeout = 5 * time.Second
	// pagesAtOnce bounds the memory of pages, which are encoded as a whole. It is what one gateway asks for at a time.
	pagesAtOnce = 4
	// turnTimeout is how long a page waits for others.
	turnTimeout = time.Second
)

// Page is a path at which the policy shows people a part of its internal state, as JSON: what it has reserved, what it has
// read, why it is not ready. The gateway serves it below /apis/v1/plugins/BACKEND of its admin address, to whoever may
// read that: show no secrets. It asks one replica.
type Page struct {
	// Path has one or more segments, each after a slash: a text of letters, digits, "-", ".", "_" and "~", or a parameter, a
	// colon with a letter and further letters, digits and "_". Such as "/quotas/:namespace". At most 256 bytes. Two paths
	// differ in more than the names of parameters.
	Path string
	// Description says in one line what the page shows. At most 256 bytes.
	Description string
	// Show returns a value of which encoding/json makes at most 4 MiB, or an error: of [NotFound], [InvalidParameter] or
	// [Unavailable], or any other one, which is taken for a failure of the policy: it is logged, and its text is not shown.
	//
	// It has no side effects, and it is called whether the policy is ready or not. The value is encoded after Show has
	// returned: it is a copy, made under the lock, of what other goroutines change. ctx ends when the caller gives up, after
	// 5 s at the latest. Four pages are shown at a time; others wait for a second, and then the gateway responds with 503.
	Show func(ctx context.Context, request IntrospectAsk) (any, error)
}

// IntrospectAsk is what a page is asked for.
type IntrospectAsk struct {
	page    *page
	request *v1beta1.IntrospectRequest
}

// Parameter is the value of a parameter of the path, by its name without the colon; never empty. A name that the path does
// not have panics with [Undeclared].
func (r IntrospectAsk) Parameter(name string) string {
	if !slices.Contains(r.page.parameters, name) {
		panic(Undeclared(fmt.Sprintf("parameter %q is read and not declared; declare it as a segment :%s of the path %s",
			name, name, r.page.Path)))
	}
	return r.request.GetParameters()[name]
}

// Query is the value of a key of the URL's query, and whether the query has it. Of a key that is repeated, the last value.
func (r IntrospectAsk) Query(key string) (string, bool) {
	value, has := r.request.GetQuery()[key]
	return value, has
}

// NotFound says that there is no such object: the gateway responds with 404 and this text.
func NotFound(format string, values ...any) error { return refused(codes.NotFound, format, values...) }

// InvalidParameter says that a parameter or the query is invalid, and what is expected: the gateway responds with 400.
func InvalidParameter(format string, values ...any) error {
	return refused(codes.InvalidArgument, format, values...)
}

// Unavailable says that the policy cannot tell now, because what it would show is missing or too old: the gateway responds
// with 503. [Bind] returns it with a text for operators if the end of a Binding is not known.
func Unavailable(format string, values ...any) error {
	return refused(codes.Unavailable, format, values...)
}

// page is a declared page.
type page struct {
	Page
	// parameters are the names in the path.
	parameters []string
}

func newPage(declared Page) *page {
	page := &page{Page: declared}
	for segment := range strings.SplitSeq(declared.Path, "/") {
		if name, is := strings.CutPrefix(segment, ":"); is {
			page.parameters = append(page.parameters, name)
		}
	}
	return page
}

// Introspect returns what a page shows.
func (s *Service) Introspect(ctx context.Context, request *v1beta1.IntrospectRequest) (*v1beta1.IntrospectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, pageTimeout)
	defer cancel()
	response := &v1beta1.IntrospectResponse{}
	err := guarded(s.log, "Introspect", func() error {
		prepared, err := s.from.policyFor(request.GetArgs())
		if err != nil {
			return err
		}
		page, err := prepared.declaration.page(request)
		if err != nil {
			return err
		}
		response.Json, err = s.show(ctx, page, request)
		return err
	})
	if err != nil {
		return nil, statusOf(err)
	}
	return response, nil
}

// page is the one that a valid request asks for.
func (d *declaration) page(request *v1beta1.IntrospectRequest) (*page, error) {
	page, is := d.pages[request.GetPath()]
	if !is {
		return nil, NotFound("path %q is not declared; GetInfo lists those that are", cut(request.GetPath(), limits.PathTextBytes))
	}
	for _, name := range page.parameters {
		if request.GetParameters()[name] == "" {
			return nil, missing("parameters." + name)
		}
	}
	return page, checkQuery(request.GetQuery())
}

func checkQuery(query map[string]string) error {
	bytes := 0
	for key, value := range query {
		bytes += len(key) + len(value)
	}
	if len(query) > limits.QueryEntries || bytes > limits.QueryBytes {
		return malformed("query has %d entries and %d bytes; expected at most %d and %d", len(query), bytes, limits.QueryEntries, limits.QueryBytes)
	}
	return nil
}

// show waits for its turn, and encodes what the page shows.
func (s *Service) show(ctx context.Context, page *page, request *v1beta1.IntrospectRequest) (encoded []byte, err error) {
	busy := refused(codes.Unavailable, "%d other pages are being shown; try again", pagesAtOnce)
	turn := time.NewTimer(turnTimeout)
	defer turn.Stop()
	select {
	case s.showing <- struct{}{}:
		defer func() { <-s.showing }()
	case <-turn.C:
		return nil, busy
	case <-ctx.Done():
		return nil, busy
	}
	defer func() {
		if panicked := recover(); panicked != nil {
			err = s.pagePanicked(page, panicked)
		}
	}()
	value, err := page.Show(ctx, IntrospectAsk{page: page, request: request})
	if err != nil {
		return nil, s.notShown(ctx, page, err)
	}
	return s.encode(page, value)
}

// notShown is the error of a page as a client gets it. The text of one that is not meant for people may hold anything.
func (s *Service) notShown(ctx context.Context, page *page, err error) error {
	var known *callError
	switch {
	case errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return refused(codeOf(ctx.Err()), "page %s was not shown in time", page.Path)
	default:
		return s.failedToShow(page, err)
	}
}

func (s *Service) failedToShow(page *page, err error) error {
	s.log.logger.Error("the policy failed to show a page", "path", page.Path, "error", err)
	return s.log.failedToShow(page, err)
}

func (l *failureLog) failedToShow(page *page, why any) error {
	if l.isAuthors() {
		return refused(codes.Internal, "failed to show %s: %v", page.Path, why)
	}
	return refused(codes.Internal, "failed to show %s; the backend's log says why", page.Path)
}

// pagePanicked leaves a read that is not declared to its caller: its text is that of this package.
func (s *Service) pagePanicked(page *page, panicked any) error {
	if undeclared, is := panicked.(Undeclared); is {
		panic(undeclared)
	}
	s.log.report(cut(fmt.Sprint(panicked), limits.StatusMessageBytes), debug.Stack())
	return s.log.failedToShow(page, panicked)
}

func (s *Service) encode(page *page, value any) ([]byte, error) {
	encoded, err := json.Marshal(value)
	switch {
	case err != nil:
		return nil, s.failedToShow(page, fmt.Errorf("it cannot be written as JSON: %w", err))
	case len(encoded) > limits.JsonBytes:
		return nil, refused(codes.ResourceExhausted, "page %s has %d bytes of JSON; expected at most %d: show less, such as a part "+
			"that the query selects", page.Path, len(encoded), limits.JsonBytes)
	case !utf8.Valid(encoded):
		// Of the author's own MarshalJSON or RawMessage.
		return nil, refused(codes.Internal, "page %s is not UTF-8", page.Path)
	default:
		return encoded, nil
	}
}
