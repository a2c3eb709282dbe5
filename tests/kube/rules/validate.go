package rules

import (
	"errors"
	"fmt"
)

func (r *Rules) validate() error {
	var errs []error
	for i := range r.Rules {
		errs = append(errs, r.Rules[i].validate(fmt.Sprintf("rules[%d]", i)))
	}
	return errors.Join(errs...)
}

func (r *Rule) validate(path string) error {
	errs := []error{r.validateKind(path)}
	if r.Pods != nil {
		errs = append(errs, validateAll(path+".pods.labels", r.Pods.Labels))
	}
	errs = append(errs, validateAll(path+".require", r.Require), validateAll(path+".prefer", r.Prefer))
	return errors.Join(errs...)
}

func (r *Rule) validateKind(path string) error {
	refuses := len(r.Require) > 0 && r.Reason != "" && r.Prefer == nil && r.Score == nil
	scores := len(r.Prefer) > 0 && r.Score != nil && r.Require == nil && r.Reason == ""
	if !refuses && !scores {
		return fmt.Errorf("%s: give either require and reason, or prefer and score", path)
	}
	return nil
}

func validateAll(path string, requirements []Requirement) error {
	var errs []error
	for i, requirement := range requirements {
		errs = append(errs, requirement.validate(fmt.Sprintf("%s[%d]", path, i)))
	}
	return errors.Join(errs...)
}

func (q *Requirement) validate(path string) error {
	var errs []error
	if q.Key == "" {
		errs = append(errs, fmt.Errorf("%s: key is missing", path))
	}
	if q.conditions() != 1 {
		errs = append(errs, fmt.Errorf("%s: give exactly one of equals, in, notIn, exists, greaterThan, lessThan", path))
	}
	return errors.Join(errs...)
}

func (q *Requirement) conditions() (count int) {
	for _, given := range []bool{q.Equals != nil, q.In != nil, q.NotIn != nil, q.Exists != nil, q.GreaterThan != nil, q.LessThan != nil} {
		if given {
			count++
		}
	}
	return count
}
