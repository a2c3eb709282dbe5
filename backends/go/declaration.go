package policy

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	"extender-gateway.io/policy/api/v1beta1"
	"extender-gateway.io/policy/internal/limits"
)

// apiVersion is the package of the contract that this package implements.
const apiVersion = "extender.policy.v1beta1"

// MaxMessageBytes is the largest message in both directions.
const MaxMessageBytes = 64 << 20

const (
	maxReasonBytes         = 900
	maxRevisionBytes       = 64
	maxConfiguredPolicies  = 16
	maxConfiguredArgsBytes = 2 << 20
	maxEarlierVersions     = 16
)

// DeclarationError are the mistakes of a declaration that no gateway can find, one sentence each.
type DeclarationError struct{ Mistakes []string }

// Error names all of them.
func (e *DeclarationError) Error() string {
	return "invalid policy: " + strings.Join(e.Mistakes, "; ")
}

// verb is one of the verbs of a declaration; hooks come last.
type verb int

const (
	verbFilter verb = iota
	verbScore
	verbPreempt
	verbBind
	verbBeforeFilter
	verbBeforeFilterNodes
	verbBeforeScore
	verbCount
)

// String is the name of the verb's method in the contract.
func (v verb) String() string {
	return [...]string{"Filter", "Score", "Preempt", "Bind", "BeforeFilter", "BeforeFilterNodes", "BeforeScore"}[v]
}

// text is the verb's name in sentences.
func (v verb) text() string {
	if v.isHook() {
		return v.String()
	}
	return strings.ToLower(v.String())
}

// isAboutNodes says whether the verb's requests have nodes.
func (v verb) isAboutNodes() bool { return v != verbBind && v != verbBeforeFilter }

// of is the verb's number in the contract.
func (v verb) number() v1beta1.Verb {
	return [...]v1beta1.Verb{
		v1beta1.Verb_VERB_FILTER, v1beta1.Verb_VERB_SCORE, v1beta1.Verb_VERB_PREEMPT, v1beta1.Verb_VERB_BIND,
		v1beta1.Verb_VERB_BEFORE_FILTER, v1beta1.Verb_VERB_BEFORE_FILTER_NODES, v1beta1.Verb_VERB_BEFORE_SCORE,
	}[v]
}

// terms are what a verb's declaration means for a call.
type terms struct {
	scope       Scope
	sideEffects bool
	pure        bool
	// changes are the parts that a hook may change.
	changes []ChangedPart
	// layout is what is read of pods and nodes.
	*layout
}

// declaration is what a policy declares: the answer to the handshake, and what a call needs of it.
type declaration struct {
	response *v1beta1.GetInfoResponse
	// verbs are nil where they are not declared.
	verbs [verbCount]*terms
	// pages are what is shown, by path.
	pages map[string]*page
}

// asDeclared is a verb as the policy declares it.
type asDeclared struct {
	verb     verb
	one, all bool
	scope    Scope
	pure     bool
	effects  bool
	reads    *Reads
	// changes are those of a hook.
	changes []ChangedPart
}

func (p *Policy) verbs() []asDeclared {
	var verbs []asDeclared
	if f := p.Filter; f != nil {
		verbs = append(verbs, asDeclared{
			verb: verbFilter, one: f.Node != nil, all: f.Nodes != nil, scope: f.Scope, pure: f.Pure, effects: f.SideEffects,
			reads: f.Reads,
		})
	}
	if s := p.Score; s != nil {
		verbs = append(verbs, asDeclared{
			verb: verbScore, one: s.Node != nil, all: s.Nodes != nil, scope: s.Scope, pure: s.Pure, effects: s.SideEffects,
			reads: s.Reads,
		})
	}
	if e := p.Preempt; e != nil {
		verbs = append(verbs, asDeclared{
			verb: verbPreempt, one: e.Node != nil, all: e.Nodes != nil, scope: e.Scope, effects: e.SideEffects, reads: e.Reads,
		})
	}
	if b := p.Bind; b != nil {
		verbs = append(verbs, asDeclared{verb: verbBind, one: b.Pod != nil, reads: b.Reads})
	}
	return append(verbs, p.hooks()...)
}

// declare reports what [Policy.mistakes] finds, all together.
func declare(p *Policy) (*declaration, error) {
	if mistakes := p.mistakes(); len(mistakes) > 0 {
		return nil, &DeclarationError{Mistakes: mistakes}
	}
	d := &declaration{pages: map[string]*page{}}
	for _, verb := range p.verbs() {
		d.verbs[verb.verb] = verb.terms()
	}
	for _, declared := range p.Introspection {
		if d.pages[declared.Path] == nil {
			d.pages[declared.Path] = newPage(declared)
		}
	}
	d.response = d.respond(p)
	if _, err := proto.Marshal(d.response); err != nil {
		return nil, &DeclarationError{Mistakes: []string{fmt.Sprintf("the declaration cannot be sent: %v; use UTF-8 alone", err)}}
	}
	return d, nil
}

func (a *asDeclared) terms() *terms {
	t := &terms{
		scope: a.scope, sideEffects: a.effects, pure: a.pure, changes: a.changes, layout: newLayout(a.reads, a.verb),
	}
	if t.scope == ScopeDefault {
		t.scope = PerNode
		if a.all {
			t.scope = WholeSet
		}
	}
	return t
}

// mayComeWith says whether these scores may be given with the verdicts, before the other policies have filtered.
func (t *terms) mayComeWith(filter *terms) bool {
	return t.scope == PerNode && !t.sideEffects && t.digest == filter.digest
}

// readsAs says whether requests for this declaration can be answered with the other one, too.
func (d *declaration) readsAs(other *declaration) bool {
	for verb := range d.verbs {
		one, two := d.verbs[verb], other.verbs[verb]
		if (one == nil) != (two == nil) || one != nil && one.digest != two.digest {
			return false
		}
	}
	return true
}

// mistakes are those that no gateway can name, because there is nothing to ask it about. What the policy API does not allow
// to declare is rejected by the gateway, and by policy-conformance.
func (p *Policy) mistakes() []string {
	var mistakes []string
	verbs := p.verbs()
	if len(verbs) == 0 {
		mistakes = append(mistakes, "no verb is declared; set Policy.Filter, Policy.Score, Policy.Preempt, Policy.Bind or a hook")
	}
	for _, verb := range verbs {
		mistakes = append(mistakes, verb.mistakes()...)
	}
	if p.Score != nil && (p.Score.Scale.normalization < NotNormalized || p.Score.Scale.normalization > MinMax) {
		mistakes = append(mistakes, "the normalization is unknown; use a constant of this package")
	}
	if p.Score != nil && p.Score.Scale.least > p.Score.Scale.largest {
		mistakes = append(mistakes, fmt.Sprintf("Between(%d, %d): the least score is larger than the largest", p.Score.Scale.least, p.Score.Scale.largest))
	}
	for _, page := range p.Introspection {
		if page.Show == nil {
			mistakes = append(mistakes, fmt.Sprintf("page %q has no function; set Page.Show", cut(page.Path, limits.PathTextBytes)))
		}
	}
	return mistakes
}

func (a *asDeclared) mistakes() []string {
	var mistakes []string
	add := func(text string) { mistakes = append(mistakes, a.verb.text()+" "+text) }
	a.functionMistakes(add)
	if a.pure && a.effects {
		// The contract has one field for both.
		add("has Pure and SideEffects; remove one")
	}
	if a.scope < ScopeDefault || a.scope > WholeSet {
		add("has an unknown Scope; use the constants of this package")
	}
	return mistakes
}

func (a *asDeclared) functionMistakes(add func(string)) {
	switch {
	case (a.verb == verbBind || a.verb == verbBeforeFilter) && !a.one:
		add(fmt.Sprintf("has no function; set %v.Pod", a.verb))
	case a.verb == verbBeforeScore && !a.one && !a.all:
		add("has no function; set BeforeScore.Pod, BeforeScore.Node or BeforeScore.Nodes")
	case a.verb == verbBeforeScore && a.one && a.all:
		add("has BeforeScore.Nodes, and BeforeScore.Pod or BeforeScore.Node; remove one")
	case !a.one && !a.all:
		add(fmt.Sprintf("has no function; set %v.Node or %v.Nodes", a.verb, a.verb))
	case a.one && a.all:
		add(fmt.Sprintf("has %v.Node and %v.Nodes; remove one", a.verb, a.verb))
	}
}

func (d *declaration) respond(p *Policy) *v1beta1.GetInfoResponse {
	response := &v1beta1.GetInfoResponse{
		Name:            p.Name,
		Version:         p.Version,
		Revision:        cmp.Or(p.Revision, programRevision(p.Version)),
		ApiVersion:      apiVersion,
		MaxRequestBytes: MaxMessageBytes,

		RejectedConfiguration: strings.ToValidUTF8(cut(p.RejectedConfiguration, limits.RejectedConfigurationBytes), ""),
	}
	for index, terms := range d.verbs {
		if terms == nil {
			continue
		}
		info := terms.info(verb(index))
		if info.GetVerb() == v1beta1.Verb_VERB_SCORE {
			p.Score.Scale.describe(info)
		}
		response.Verbs = append(response.Verbs, info)
	}
	response.Services = d.services(p)
	for _, page := range p.Introspection {
		path := &v1beta1.IntrospectionPath{Path: page.Path, Description: page.Description}
		response.Introspection = append(response.Introspection, path)
	}
	return response
}

// services are those besides the one that every backend serves.
func (d *declaration) services(p *Policy) []string {
	tables, hooks := false, false
	for index, terms := range d.verbs {
		if terms == nil {
			continue
		}
		// Rows of names come with each call.
		tables = tables || terms.row.facts && !p.WithoutNodeTable
		hooks = hooks || verb(index).isHook()
	}
	var services []string
	if tables {
		services = append(services, v1beta1.NodeTableService_ServiceDesc.ServiceName)
	}
	if hooks {
		services = append(services, v1beta1.HookService_ServiceDesc.ServiceName)
	}
	if len(p.Introspection) > 0 {
		services = append(services, v1beta1.IntrospectionService_ServiceDesc.ServiceName)
	}
	if p.Observe != nil {
		services = append(services, v1beta1.OutcomeService_ServiceDesc.ServiceName)
	}
	return append(services, v1beta1.WatchService_ServiceDesc.ServiceName)
}

func (t *terms) info(verb verb) *v1beta1.VerbInfo {
	info := &v1beta1.VerbInfo{Verb: verb.number(), Reads: t.message}
	if verb == verbBind {
		return info
	}
	info.Effects, info.Changes = t.effects(), changedParts(t.changes)
	info.Scope = v1beta1.Scope_SCOPE_NODE
	if t.scope == WholeSet {
		info.Scope = v1beta1.Scope_SCOPE_WHOLE_SET
	}
	return info
}

func (t *terms) effects() v1beta1.Effects {
	switch {
	case t.sideEffects:
		return v1beta1.Effects_EFFECTS_CHANGES_OUTSIDE
	case t.pure:
		return v1beta1.Effects_EFFECTS_PURE
	default:
		return v1beta1.Effects_EFFECTS_READS_OUTSIDE
	}
}

func (s Scale) describe(info *v1beta1.VerbInfo) {
	if s.bounded {
		info.ScoreMin, info.ScoreMax = proto.Int32(s.least), proto.Int32(s.largest)
	}
	info.Normalization = [...]v1beta1.Normalization{
		NotNormalized: v1beta1.Normalization_NORMALIZATION_NONE,
		Range:         v1beta1.Normalization_NORMALIZATION_RANGE,
		Max:           v1beta1.Normalization_NORMALIZATION_MAX,
		MinMax:        v1beta1.Normalization_NORMALIZATION_MIN_MAX,
	}[s.normalization]
	info.Reversed = s.reversed
}
