package policy

import (
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
)

// Source is what [Main] and [Serve] serve: a [Policy], or a [*Backend] for one that is built from args or replaced while
// it runs.
type Source interface {
	backend() (*Backend, error)
}

// Backend is where the policy comes from that answers a call: a fixed one, one that is replaced while running, or one that
// is built from the operator's args.
type Backend struct {
	// policyFor is the policy for a call with these args.
	policyFor func(args []byte) (*prepared, error)
	// earlier are the policies that this one has replaced, the latest first; nil if there are none.
	earlier func() []*prepared
	// known is the policy if it is known before args come.
	known func() *prepared
}

// prepared is a policy with its declaration, which belong together: a call never mixes two policies.
type prepared struct {
	policy      Policy
	declaration *declaration
}

func prepare(policy Policy) (*prepared, error) {
	declaration, err := declare(&policy)
	if err != nil {
		return nil, err
	}
	return &prepared{policy: policy, declaration: declaration}, nil
}

func (p Policy) backend() (*Backend, error) {
	fixed, err := prepare(p)
	if err != nil {
		return nil, err
	}
	return &Backend{
		policyFor: func(args []byte) (*prepared, error) { return fixed, refuseAny(args) },
		known:     func() *prepared { return fixed },
	}, nil
}

func (b *Backend) backend() (*Backend, error) { return b, nil }

// Configured is a backend whose policy is built from the operator's args, so that one process serves several configured
// policies. build is called once for each distinct args, not once for each call: the latest 16 results are kept. Without
// args it gets those of an empty object.
//
// The JSON is decoded into A by encoding/json, on top of the defaults. A field is required unless its tag has omitempty or
// omitzero; names are matched exactly, and unknown fields are errors. The operator gets a
// text with the path of the mistake and what is expected. An error of build is such a text, too, and should be:
//
//	type Args struct {
//		Zone string `json:"zone"`
//		Most int    `json:"most,omitzero"`
//	}
//
//	backend := policy.Configured(Args{Most: 3}, func(args Args) (policy.Policy, error) {
//		if args.Most < 1 || args.Most > 1000 {
//			return policy.Policy{}, fmt.Errorf("args.most is %d; expected 1 to 1000", args.Most)
//		}
//		return newPolicy(args), nil
//	})
func Configured[A any](defaults A, build func(args A) (Policy, error)) *Backend {
	recent := &recent{build: func(args []byte) (*prepared, error) {
		parsed, err := parsed(args, defaults)
		if err != nil {
			return nil, err
		}
		policy, err := build(parsed)
		if err != nil {
			return nil, built(err)
		}
		return prepare(policy)
	}}
	return &Backend{policyFor: recent.policyFor}
}

// Replaceable is a backend with a policy that takes no args and is replaced while running, such as one made from a rule
// file.
//
// If the new policy declares other Reads, the old one still answers the calls that were made for it, until the gateway has
// repeated the handshake; so do the 16 latest of several old ones.
func Replaceable(policy Policy) (*Backend, *Replacer, error) {
	first, err := prepare(policy)
	if err != nil {
		return nil, nil, err
	}
	replacer := &Replacer{}
	replacer.versions.Store(&[]*prepared{first})
	latest := func() *prepared { return (*replacer.versions.Load())[0] }
	return &Backend{
		policyFor: func(args []byte) (*prepared, error) { return latest(), refuseAny(args) },
		earlier:   func() []*prepared { return (*replacer.versions.Load())[1:] },
		known:     latest,
	}, replacer, nil
}

// Replacer replaces the policy of [Replaceable]. Calls in progress finish with the old one.
type Replacer struct {
	adding sync.Mutex
	// versions are the latest policy and then the earlier ones; no two of them declare the same.
	versions atomic.Pointer[[]*prepared]
}

// Replace lets this policy answer from now on. After an error, a [DeclarationError], the old one stays. The gateway judges the
// rest of the declaration: one that it rejects has replaced the old one, too. Let policy-conformance judge it before.
func (r *Replacer) Replace(policy Policy) error {
	latest, err := prepare(policy)
	if err != nil {
		return err
	}
	r.adding.Lock()
	defer r.adding.Unlock()
	versions := []*prepared{latest}
	for _, version := range *r.versions.Load() {
		// An earlier version that declares the same is never needed again.
		if !version.declaration.readsAs(latest.declaration) && len(versions) <= maxEarlierVersions {
			versions = append(versions, version)
		}
	}
	r.versions.Store(&versions)
	return nil
}

// WithArgs is the policy that this backend has for these args, for any args. For tests.
func (b *Backend) WithArgs(args []byte) (*Backend, error) {
	var chosen *prepared
	err := guarded(nil, func() (err error) {
		chosen, err = b.policyFor(args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Backend{policyFor: func([]byte) (*prepared, error) { return chosen, nil }}, nil
}

// policyReading is the policy for a call of a verb: the one for its args or, if that one no longer declares what pod and
// nodes were encoded with, an earlier one that does. Whether the verb is declared is left to the caller.
func (b *Backend) policyReading(args []byte, reads uint32, verb verb) (*prepared, error) {
	latest, err := b.policyFor(args)
	if err != nil {
		return nil, err
	}
	terms := latest.declaration.verbs[verb]
	if terms == nil || terms.reads() == reads {
		return latest, nil
	}
	if b.earlier != nil {
		for _, version := range b.earlier() {
			if earlier := version.declaration.verbs[verb]; earlier != nil && earlier.reads() == reads {
				return version, nil
			}
		}
	}
	return nil, refused(codes.FailedPrecondition,
		"call.reads is %d, and this policy now declares reads with the id %d; repeat the handshake", reads, terms.reads())
}

// recent are the policies that were recently built from args, the most recently used first. They are bounded in number and
// bytes: args come from outside, and each policy costs memory. Searched one by one: there are few, and mostly one.
type recent struct {
	build func(args []byte) (*prepared, error)
	mu    sync.Mutex
	known []*configured
}

type configured struct {
	args     string
	prepared *prepared
	// repeated says whether it was used more than once. Args that are used once, as by a client that is not the gateway,
	// must not displace those of every call.
	repeated bool
}

func (r *recent) policyFor(args []byte) (*prepared, error) {
	args, err := normalized(args)
	if err != nil {
		return nil, err
	}
	if known := r.find(args); known != nil {
		return known, nil
	}
	// Not under the lock: a policy that takes long to build delays no call with other args.
	prepared, err := r.build(args)
	if err != nil {
		return nil, err
	}
	r.remember(string(args), prepared)
	return prepared, nil
}

func (r *recent) find(args []byte) *prepared {
	r.mu.Lock()
	defer r.mu.Unlock()
	for position, known := range r.known {
		if known.args == string(args) {
			known.repeated = true
			if position > 0 {
				r.known = slices.Insert(slices.Delete(r.known, position, position+1), 0, known)
			}
			return known.prepared
		}
	}
	return nil
}

func (r *recent) remember(args string, prepared *prepared) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.known, func(known *configured) bool { return known.args == args }) {
		// Another call has built it meanwhile.
		return
	}
	for len(r.known) > 0 && (len(r.known) >= maxConfiguredPolicies || r.bytes()+len(args) > maxConfiguredArgsBytes) {
		r.evict()
	}
	r.known = slices.Insert(r.known, 0, &configured{args: args, prepared: prepared})
}

// evict removes the least recently used policy; those that were used only once go first.
func (r *recent) evict() {
	last := len(r.known) - 1
	for position := last; position >= 0; position-- {
		if !r.known[position].repeated {
			last = position
			break
		}
	}
	r.known = slices.Delete(r.known, last, last+1)
}

func (r *recent) bytes() int {
	total := 0
	for _, known := range r.known {
		total += len(known.args)
	}
	return total
}
