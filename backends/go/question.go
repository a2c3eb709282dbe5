package policy

import (
	"context"
	"log/slog"

	"google.golang.org/grpc/codes"

	"extender-gateway.io/policy/api/v1beta1"
)

// asked is a request about a pod and nodes.
type asked interface {
	GetCall() *v1beta1.Call
	GetPod() *v1beta1.Pod
	GetNodes() *v1beta1.Nodes
}

// question is a request that can be answered, unless miss is set.
type question struct {
	ctx      context.Context
	verb     verb
	prepared *prepared
	terms    *terms
	origin   podOrigin
	pod      Pod
	nodes    Nodes
	count    uint32
	miss     v1beta1.Miss
}

// chosen is the policy for a call, which its trace names, and what it declares about the verb.
func (s *Service) chosen(ctx context.Context, call *v1beta1.Call, verb verb) (*prepared, *terms, error) {
	if call == nil {
		return nil, nil, missing("call")
	}
	span := spanOf(ctx)
	span.Set("extender.call.id", call.GetId())
	span.Set("extender.backend.name", call.GetBackend())
	if cluster := call.GetCluster(); cluster != "" {
		span.Set("extender.cluster.name", cluster)
	}
	prepared, err := s.from.policyReading(call, verb)
	if err != nil {
		return nil, nil, err
	}
	info := prepared.declaration.response
	span.Set("extender.policy.name", info.GetName())
	span.Set("extender.policy.revision", info.GetRevision())
	terms := prepared.declaration.verbs[verb]
	if terms == nil {
		return nil, nil, refused(codes.Unimplemented, "this policy does not serve %v; its GetInfo does not list it", verb)
	}
	return prepared, terms, checkPurpose(call.GetPurpose(), terms.sideEffects || verb == verbBind)
}

// checkPurpose takes an unknown purpose of a later version for no decision either.
func checkPurpose(purpose v1beta1.Purpose, sideEffects bool) error {
	if purpose == v1beta1.Purpose_PURPOSE_UNSPECIFIED {
		return malformed("call.purpose is missing")
	}
	if sideEffects && purpose != v1beta1.Purpose_PURPOSE_DECIDE {
		return refusedFor(v1beta1.ErrorReason_ERROR_REASON_PURPOSE, codes.FailedPrecondition, "this policy has side effects and only answers PURPOSE_DECIDE")
	}
	return nil
}

// about answers a request by a policy that is ready, unless it is a miss. It sets the result, with which both answers begin.
func (s *Service) about(
	ctx context.Context, verb verb, asked asked, result **v1beta1.Result, answer func(q *question) error,
) error {
	return s.answered(verb, func() error {
		q, err := s.read(ctx, verb, asked)
		if err != nil {
			return err
		}
		*result = q.result()
		if q.miss != v1beta1.Miss_MISS_UNSPECIFIED {
			return nil
		}
		if preemption, is := asked.(*v1beta1.PreemptRequest); is {
			if err := q.checkCandidates(preemption.GetCandidates()); err != nil {
				return err
			}
		}
		if err := q.prepared.ready(); err != nil {
			return err
		}
		return answer(q)
	})
}

// read reads and validates a request. Whether it is valid does not depend on which tables exist here.
func (s *Service) read(ctx context.Context, verb verb, asked asked) (*question, error) {
	prepared, terms, err := s.chosen(ctx, asked.GetCall(), verb)
	if err != nil {
		return nil, err
	}
	q := &question{ctx: ctx, verb: verb, prepared: prepared, terms: terms}
	if err := s.take(asked.GetNodes(), q); err != nil {
		return nil, err
	}
	if err := q.place(asked, s.log.logger); err != nil {
		return nil, err
	}
	q.trace()
	return q, nil
}

// take takes the nodes of the request. Where there are none, what is evaluated is the pod.
func (s *Service) take(nodes *v1beta1.Nodes, q *question) error {
	switch {
	case q.verb == verbBeforeFilter && nodes != nil:
		return malformed("nodes is set; VERB_BEFORE_FILTER is about the pod alone")
	case q.verb == verbBeforeFilter:
		q.count = 1
		return nil
	case nodes == nil:
		return missing("nodes")
	}
	rows, err := s.hold(nodes, q)
	q.count, q.nodes = nodes.GetCount(), Nodes{rows: rows, access: q.terms.node}
	return err
}

// trace says in the call's span what is evaluated.
func (q *question) trace() {
	span := spanOf(q.ctx)
	if q.miss != v1beta1.Miss_MISS_UNSPECIFIED {
		span.Set("extender.miss", q.miss.String())
	} else {
		span.Set("extender.nodes.evaluated", int64(q.count))
	}
}

// place takes the pod of the request, which is to be placed.
func (q *question) place(asked asked, logger *slog.Logger) error {
	if err := q.checkPod(asked.GetPod()); err != nil {
		return err
	}
	q.origin = podOrigin{ctx: q.ctx, call: asked.GetCall(), access: q.terms.pod, pure: q.terms.pure, logger: logger}
	q.pod = q.origin.view(asked.GetPod())
	namePod(q.ctx, q.pod.view.facts.GetNamespace(), q.pod.view.pod.GetIdentity().GetName())
	return nil
}

func (q *question) checkPod(pod *v1beta1.Pod) error {
	if pod == nil {
		return missing("pod")
	}
	if wrong := checkTopologies(pod.GetTopologyCounts(), q.terms.pod); wrong != "" {
		return malformed("pod.topology_counts%s", wrong)
	}
	if pod.GetFacts() == nil {
		return missing("pod.facts")
	}
	if wrong := checkPod(pod.GetFacts(), q.terms.pod); wrong != "" {
		return malformed("pod.facts.%s", wrong)
	}
	return nil
}

// hold are the rows of a request: those in it, and those of a table that it names. It sets the miss if they cannot be read
// here.
func (s *Service) hold(nodes *v1beta1.Nodes, q *question) ([]*v1beta1.NodeRow, error) {
	switch form := nodes.GetForm().(type) {
	case *v1beta1.Nodes_Rows:
		rows := form.Rows.GetRows()
		if err := checkCount(nodes.GetCount(), len(rows)); err != nil {
			return nil, err
		}
		return rows, q.checkRows("rows", rows)
	case *v1beta1.Nodes_Table:
		named := form.Table
		if err := checkCount(nodes.GetCount(), len(named.GetIds())); err != nil {
			return nil, err
		}
		if err := checkZeros(named); err != nil {
			return nil, err
		}
		if err := q.checkRows("table", named.GetRows()); err != nil {
			return nil, err
		}
		return s.named(named, q), nil
	default:
		q.miss = v1beta1.Miss_MISS_FORM_UNKNOWN
		return nil, nil
	}
}

// named are the rows of a table.
func (s *Service) named(form *v1beta1.NodeRef, q *question) (rows []*v1beta1.NodeRow) {
	found := s.tables.find(form.GetTable())
	// The values of a table with another declaration could stand for other keys.
	if found == nil || found.reads != q.terms.table {
		q.miss = v1beta1.Miss_MISS_TABLE_UNKNOWN
		return nil
	}
	rows, q.miss = found.read(form)
	return rows
}

func checkCount(count uint32, rows int) error {
	if count == 0 || int64(count) != int64(rows) {
		return malformed("nodes.count is %d and there are %d rows; both count the nodes of the request, at least 1", count, rows)
	}
	return nil
}

func checkZeros(form *v1beta1.NodeRef) error {
	zeros := 0
	for _, id := range form.GetIds() {
		if id == 0 {
			zeros++
		}
	}
	if rows := len(form.GetRows()); zeros != rows {
		return malformed("nodes.table.ids has %d zeros and there are %d rows; each zero stands for a row", zeros, rows)
	}
	return nil
}

func (q *question) checkRows(form string, rows []*v1beta1.NodeRow) error {
	counts := q.terms.node.counts()
	for position, row := range rows {
		if wrong := checkRow(row, q.terms.row, counts, "what this policy declares to read"); wrong != "" {
			return malformed("nodes.%s.rows[%d]%s", form, position, wrong)
		}
	}
	return nil
}
