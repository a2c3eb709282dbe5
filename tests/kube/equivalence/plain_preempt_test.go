package equivalence

import (
	"maps"
	"slices"

	extenderv1 "k8s.io/kube-scheduler/extender/v1"
)

func (p plain) preempt(args *extenderv1.ExtenderPreemptionArgs) (*extenderv1.ExtenderPreemptionResult, error) {
	candidates := metaVictims(args)
	result := &extenderv1.ExtenderPreemptionResult{NodeNameToMetaVictims: map[string]*extenderv1.MetaVictims{}}
	for node, candidate := range candidates {
		if victims, keep := p.keep(candidate); keep {
			result.NodeNameToMetaVictims[node] = victims
		}
	}
	return result, p.preemptFailure.of(slices.Collect(maps.Keys(candidates)))
}

// keep drops the victims that may not be evicted.
func (p plain) keep(candidate *extenderv1.MetaVictims) (*extenderv1.MetaVictims, bool) {
	var uids []string
	for _, pod := range candidate.Pods {
		uids = append(uids, pod.UID)
	}
	positions, keep := p.evict(uids)
	left := &extenderv1.MetaVictims{NumPDBViolations: candidate.NumPDBViolations}
	for _, position := range positions {
		left.Pods = append(left.Pods, candidate.Pods[position])
	}
	return left, keep
}

// metaVictims are the candidates of a call in either form.
func metaVictims(args *extenderv1.ExtenderPreemptionArgs) map[string]*extenderv1.MetaVictims {
	if args.NodeNameToVictims == nil {
		return args.NodeNameToMetaVictims
	}
	candidates := map[string]*extenderv1.MetaVictims{}
	for node, victims := range args.NodeNameToVictims {
		meta := &extenderv1.MetaVictims{NumPDBViolations: victims.NumPDBViolations}
		for _, pod := range victims.Pods {
			meta.Pods = append(meta.Pods, &extenderv1.MetaPod{UID: string(pod.UID)})
		}
		candidates[node] = meta
	}
	return candidates
}
