package policy

import (
	"sync"
	"sync/atomic"
)

// versions are those of a policy that changes while running: the latest one, and the earlier ones that may still be asked
// for. A request is encoded with one declaration, and can be read with no other.
type versions struct {
	changing sync.Mutex
	// all has the latest one first; no two of them declare the same.
	all atomic.Pointer[[]*prepared]
}

func newVersions(first Policy) (*versions, error) {
	v := &versions{}
	v.all.Store(&[]*prepared{})
	return v, v.replace(first)
}

// newest is the latest one so far.
func (v *versions) newest() *prepared { return (*v.all.Load())[0] }

// latest is the one that answers from now on, which [Policy.Current] may name.
func (v *versions) latest() (*prepared, error) {
	asked := v.newest()
	if asked.policy.Current == nil {
		return asked, nil
	}
	policy := asked.policy.Current()
	if policy == nil {
		return asked, nil
	}
	newer, err := prepare(*policy)
	if err != nil {
		return nil, err
	}
	v.changing.Lock()
	defer v.changing.Unlock()
	// Unless another call has replaced it meanwhile.
	if v.newest() == asked {
		v.add(newer)
	}
	return v.newest(), nil
}

func (v *versions) replace(policy Policy) error {
	newer, err := prepare(policy)
	if err != nil {
		return err
	}
	v.changing.Lock()
	defer v.changing.Unlock()
	v.add(newer)
	return nil
}

// add is called by one at a time. An earlier version that declares the same is never needed again.
func (v *versions) add(latest *prepared) {
	all := []*prepared{latest}
	for _, version := range *v.all.Load() {
		if !version.declaration.readsAs(latest.declaration) && len(all) <= maxEarlierVersions {
			all = append(all, version)
		}
	}
	v.all.Store(&all)
}

// declaring is the latest one that declares the reads of this digest for the verb; nil if there is none.
func (v *versions) declaring(verb verb, reads string) *prepared {
	for _, version := range *v.all.Load() {
		if terms := version.declaration.verbs[verb]; terms != nil && terms.digest == reads {
			return version
		}
	}
	return nil
}
