use super::*;
use crate::model::{Failing, FilterRule, Interest, Mode, Prefix};

const PLAIN: Differences = Differences { prefix: Prefix::None, exempt: BTreeSet::new() };

fn extender(on_failure: OnFailure, rule: FilterRule, failing: Failing) -> Extender {
    let preemption = Preemption::Honored;
    let filter = Filter { on_failure, preemption, rule, failing, blind: BTreeSet::new() };
    Extender {
        name: "e".into(),
        mode: Mode::Enforce,
        interest: Interest::default(),
        filter: Some(filter),
        score: None,
        preempt: None,
    }
}

fn no(reason: &str) -> Rejection {
    Rejection { reason: reason.into(), preemption_may_help: true }
}

fn refusing(node: Node, reason: &str) -> FilterRule {
    let mut table = vec![None; 3];
    table[node] = Some(no(reason));
    FilterRule::PerNode(table)
}

fn verdict(extenders: &[Extender], offered: &[Node]) -> Verdict {
    filter(extenders, (&Pod::default(), &PLAIN), offered).verdict
}

#[test]
fn ignorable_extenders_are_asked_last() {
    let extenders = [
        extender(OnFailure::Ignore, refusing(0, "late"), Failing::Never),
        extender(OnFailure::Fail, refusing(0, "early"), Failing::Never),
    ];
    let status = Status { kind: Kind::Failed, reason: "early".into() };
    let statuses = BTreeMap::from([(0, status)]);
    assert_eq!(verdict(&extenders, &[1, 0, 1]), Verdict::Decided { feasible: vec![1, 1], statuses });
}

#[test]
fn a_failure_ends_the_call_only_if_it_is_met() {
    let all = FilterRule::FirstOf { most: 0, rest: no("no") };
    let failing = extender(OnFailure::Fail, refusing(0, "x"), Failing::Always);
    let extenders = [extender(OnFailure::Fail, all, Failing::Never), failing.clone()];
    assert!(matches!(verdict(&extenders, &[0, 1]), Verdict::Decided { .. }));
    assert_eq!(verdict(&[failing], &[0, 1]), Verdict::Failed(0));
}

#[test]
fn unknown_nodes_alone_are_an_error() {
    let mut blind = extender(OnFailure::Fail, refusing(0, "x"), Failing::Never);
    blind.filter.as_mut().expect("it filters").blind = BTreeSet::from([1]);
    assert_eq!(verdict(std::slice::from_ref(&blind), &[0, 1]), Verdict::NotYetKnown(1));
    assert!(matches!(verdict(&[blind], &[2, 1]), Verdict::Decided { .. }));
}
