package policy

import (
	"slices"
	"sync"

	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
)

// Source is what [Main] and [Serve] serve: a [Policy], or a [*Backend] for one that is built from args or replaced while
// it runs.
type Source interface {
	backend() (*Backend, error)
}

// Backend is where the policy comes from that answers a call: a fixed one, one that is replaced while running, or one that
// is built from the operator's args.
type Backend struct {
	// versionsFor are the versions of the policy for a call with these args.
	versionsFor func(args []byte) (*versions, error)
	// only are those of the only policy; nil if there is one for each args.
	only *versions
	// check rejects a policy that may not be served here; nil if all may.
	check func(*prepared) error
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
	versions, err := newVersions(p)
	if err != nil {
		return nil, err
	}
	return fixedTo(versions), nil
}

func (b *Backend) backend() (*Backend, error) { return b, nil }

// fixedTo has one policy, which takes no args.
func fixedTo(only *versions) *Backend {
	return &Backend{versionsFor: func(args []byte) (*versions, error) { return only, refuseAny(args) }, only: only}
}

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
	recent := &recent{build: func(args []byte) (*versions, error) {
		parsed, err := parsed(args, defaults)
		if err != nil {
			return nil, err
		}
		policy, err := build(parsed)
		if err != nil {
			return nil, built(err)
		}
		return newVersions(policy)
	}}
	return &Backend{versionsFor: recent.versionsFor}
}

// Replaceable is a backend with a policy that takes no args and is replaced while running, such as one made from a rule
// file.
//
// If the new policy declares other Reads, the old one still answers the calls that were made for it, until the gateway has
// repeated the handshake; so do the 16 latest of several old ones.
func Replaceable(policy Policy) (*Backend, *Replacer, error) {
	versions, err := newVersions(policy)
	if err != nil {
		return nil, nil, err
	}
	return fixedTo(versions), &Replacer{versions: versions}, nil
}

// Replacer replaces the policy of [Replaceable]. Calls in progress finish with the old one.
type Replacer struct{ versions *versions }

// Replace lets this policy answer from now on. After an error, a [DeclarationError], the old one stays. The gateway judges the
// rest of the declaration: one that it rejects has replaced the old one, too. Let policy-conformance judge it before.
func (r *Replacer) Replace(policy Policy) error { return r.versions.replace(policy) }

// WithArgs is the policy that this backend has for these args, for any args. For tests.
func (b *Backend) WithArgs(args []byte) (*Backend, error) {
	var chosen *versions
	err := guarded(nil, "getInfo", func() (err error) {
		chosen, err = b.versionsFor(args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Backend{versionsFor: func([]byte) (*versions, error) { return chosen, nil }}, nil
}

// policyFor is the policy for a call with these args.
func (b *Backend) policyFor(args []byte) (*prepared, error) {
	latest, _, err := b.latestFor(args)
	return latest, err
}

func (b *Backend) latestFor(args []byte) (*prepared, *versions, error) {
	versions, err := b.versionsFor(args)
	if err != nil {
		return nil, nil, err
	}
	latest, err := versions.latest()
	if err == nil && b.check != nil {
		err = b.check(latest)
	}
	return latest, versions, err
}

// policyReading is the policy for a call of a verb: the one for its args or, if that one no longer declares what pod and
// nodes were encoded with, an earlier one that does. Whether the verb is declared is left to the caller.
func (b *Backend) policyReading(args []byte, reads uint32, verb verb) (*prepared, error) {
	latest, versions, err := b.latestFor(args)
	if err != nil {
		return nil, err
	}
	terms := latest.declaration.verbs[verb]
	if terms == nil || terms.reads() == reads {
		return latest, nil
	}
	if earlier := versions.declaring(verb, reads); earlier != nil {
		return earlier, nil
	}
	return nil, refusedFor(v1beta1.ErrorReason_ERROR_REASON_OTHER_READS, codes.FailedPrecondition,
		"call.reads is %d, and this policy now declares reads with the id %d; repeat the handshake", reads, terms.reads())
}

// recent are the policies that were recently built from args, the most recently used first. They are bounded in number and
// bytes: args come from outside, and each policy costs memory. Searched one by one: there are few, and mostly one.
type recent struct {
	build func(args []byte) (*versions, error)
	mu    sync.Mutex
	known []*configured
}

type configured struct {
	args     string
	versions *versions
	// repeated says whether it was used more than once. Args that are used once, as by a client that is not the gateway,
	// must not displace those of every call.
	repeated bool
}

func (r *recent) versionsFor(args []byte) (*versions, error) {
	args, err := normalized(args)
	if err != nil {
		return nil, err
	}
	if known := r.find(args); known != nil {
		return known, nil
	}
	// Not under the lock: a policy that takes long to build delays no call with other args.
	built, err := r.build(args)
	if err != nil {
		return nil, err
	}
	r.remember(string(args), built)
	return built, nil
}

func (r *recent) find(args []byte) *versions {
	r.mu.Lock()
	defer r.mu.Unlock()
	for position, known := range r.known {
		if known.args == string(args) {
			known.repeated = true
			if position > 0 {
				r.known = slices.Insert(slices.Delete(r.known, position, position+1), 0, known)
			}
			return known.versions
		}
	}
	return nil
}

func (r *recent) remember(args string, built *versions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.known, func(known *configured) bool { return known.args == args }) {
		// Another call has built it meanwhile.
		return
	}
	for len(r.known) > 0 && (len(r.known) >= maxConfiguredPolicies || r.bytes()+len(args) > maxConfiguredArgsBytes) {
		r.evict()
	}
	r.known = slices.Insert(r.known, 0, &configured{args: args, versions: built})
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
