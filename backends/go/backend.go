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
	// recent are the versions of the policy by the args of a call.
	recent *recent
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
	return &Backend{recent: &recent{build: func(args []byte) (*versions, error) { return only, refuseAny(args) }}, only: only}
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
	return &Backend{recent: &recent{build: func(args []byte) (*versions, error) {
		args, err := normalized(args)
		if err != nil {
			return nil, err
		}
		parsed, err := parsed(args, defaults)
		if err != nil {
			return nil, err
		}
		policy, err := build(parsed)
		if err != nil {
			return nil, built(err)
		}
		return newVersions(policy)
	}}}
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
		chosen, err = b.recent.versionsFor(args)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &Backend{recent: &recent{build: func([]byte) (*versions, error) { return chosen, nil }}}, nil
}

// policyFor is the policy for a request with these args.
func (b *Backend) policyFor(args []byte) (*prepared, error) {
	versions, err := b.recent.versionsFor(args)
	if err != nil {
		return nil, err
	}
	return b.latestOf(versions)
}

// called are the versions of the policy for a call.
func (b *Backend) called(call *v1beta1.Call) (*versions, error) {
	if b.only != nil && len(call.GetArgs())+len(call.GetArgsSha256()) == 0 {
		// As for most policies: nothing is looked up.
		return b.only, nil
	}
	return b.recent.named(call.GetArgsSha256(), call.GetArgs())
}

// inUse are the versions of the only policy, or those for the latest args.
func (b *Backend) inUse() []*versions {
	if b.only != nil {
		return []*versions{b.only}
	}
	b.recent.mu.Lock()
	defer b.recent.mu.Unlock()
	all := make([]*versions, len(b.recent.known))
	for position, known := range b.recent.known {
		all[position] = known.versions
	}
	return all
}

func (b *Backend) latestOf(versions *versions) (*prepared, error) {
	latest, err := versions.latest()
	if err == nil && b.check != nil {
		err = b.check(latest)
	}
	return latest, err
}

// policyReading is the policy for a call of a verb: the one for its args or, if that one no longer declares what pod and
// nodes were encoded with, an earlier one that does. Whether the verb is declared is left to the caller.
func (b *Backend) policyReading(call *v1beta1.Call, verb verb) (*prepared, error) {
	versions, err := b.called(call)
	if err != nil {
		return nil, err
	}
	latest, err := b.latestOf(versions)
	if err != nil {
		return nil, err
	}
	terms, reads := latest.declaration.verbs[verb], string(call.GetReads())
	if terms == nil || terms.digest == reads {
		return latest, nil
	}
	if earlier := versions.declaring(verb, reads); earlier != nil {
		return earlier, nil
	}
	return nil, refusedFor(v1beta1.ErrorReason_ERROR_REASON_OTHER_READS, codes.FailedPrecondition,
		"call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake")
}

// recent are the policies that were recently built from args, the most recently used first. They are bounded in number and
// bytes: args come from outside, and each policy costs memory. Searched one by one: there are few, and mostly one.
type recent struct {
	build func(args []byte) (*versions, error)
	mu    sync.Mutex
	known []*configured
}

type configured struct {
	digest argsDigest
	// bytes is how long the args are.
	bytes    int
	versions *versions
	// repeated says whether it was used more than once. Args that are used once, as by a client that is not the gateway,
	// must not displace those of every call.
	repeated bool
}

// named are the versions for a call, which brings args in full only after their digest was not known here.
func (r *recent) named(sha256, args []byte) (*versions, error) {
	switch {
	case len(args) > 0:
		return r.brought(sha256, args)
	case len(sha256) == 0:
		return r.versionsFor(nil)
	case len(sha256) != len(argsDigest{}):
		return nil, malformed("call.args_sha256 has %d bytes; a SHA-256 has %d", len(sha256), len(argsDigest{}))
	}
	if known := r.find(argsDigest(sha256)); known != nil {
		return known, nil
	}
	return nil, refusedFor(v1beta1.ErrorReason_ERROR_REASON_ARGS_UNKNOWN, codes.FailedPrecondition,
		"the args of this call are not known here; send them")
}

// brought checks that args are remembered by the digest by which later calls name them.
func (r *recent) brought(sha256, args []byte) (*versions, error) {
	digest, err := newArgsDigest(args)
	if err != nil {
		return nil, err
	}
	if string(sha256) != string(digest[:]) {
		return nil, malformed("call.args_sha256 is missing or another one than that of call.args")
	}
	return r.versionsOf(digest, args)
}

// versionsFor are the versions for args that are not named by their digest.
func (r *recent) versionsFor(args []byte) (*versions, error) {
	digest, err := newArgsDigest(args)
	if err != nil {
		return nil, err
	}
	return r.versionsOf(digest, args)
}

func (r *recent) versionsOf(digest argsDigest, args []byte) (*versions, error) {
	if known := r.find(digest); known != nil {
		return known, nil
	}
	// Not under the lock: a policy that takes long to build delays no call with other args.
	built, err := r.build(args)
	if err != nil {
		return nil, err
	}
	r.remember(digest, len(args), built)
	return built, nil
}

func (r *recent) find(digest argsDigest) *versions {
	r.mu.Lock()
	defer r.mu.Unlock()
	for position, known := range r.known {
		if known.digest == digest {
			known.repeated = true
			if position > 0 {
				r.known = slices.Insert(slices.Delete(r.known, position, position+1), 0, known)
			}
			return known.versions
		}
	}
	return nil
}

func (r *recent) remember(digest argsDigest, bytes int, built *versions) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.ContainsFunc(r.known, func(known *configured) bool { return known.digest == digest }) {
		// Another call has built it meanwhile.
		return
	}
	for len(r.known) > 0 && (len(r.known) >= maxConfiguredPolicies || r.bytes()+bytes > maxConfiguredArgsBytes) {
		r.evict()
	}
	r.known = slices.Insert(r.known, 0, &configured{digest: digest, bytes: bytes, versions: built})
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
		total += known.bytes
	}
	return total
}
