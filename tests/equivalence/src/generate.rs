//! Generated cases.
//!
//! Small numbers and few words, so that values coincide: ten nodes, four backends, three namespaces.

mod backend;
mod counts;
mod crowd;
mod pod;
mod preempt;
mod round;
mod theme;

use extender_reference::model::{Differences, Node, Prefix};
use proptest::{collection::vec, prelude::*, sample::Index};

use crate::case::{Case, KNOWN, NODES, Source};

/// Any case.
pub fn case() -> impl Strategy<Value = Case> {
    let asked = (pod::pod(), offered(), preempt::candidates(), preempt::form());
    let known = (preempt::pods(), counts::bound(), source(), differences());
    let later = (round::rounds(), crowd::crowd());
    (theme::theme(), asked, known, vec(backend::backend(), 1..=5), later).prop_map(
        |(
            theme,
            (pod, offered, candidates, form),
            (pods, bound, source, differences),
            mut backends,
            (rounds, crowd),
        )| {
            for (position, backend) in backends.iter_mut().enumerate() {
                backend.extender.name = format!("backend-{position}");
            }
            let case = Case {
                pod,
                offered,
                candidates,
                form,
                pods,
                bound,
                source,
                differences,
                backends,
                rounds,
                crowd,
            };
            theme.bend(case).settled()
        },
    )
}

fn offered() -> impl Strategy<Value = Vec<Node>> {
    let known = prop::sample::subsequence((0..KNOWN).collect::<Vec<_>>(), 0..=KNOWN).prop_shuffle();
    let known = prop_oneof![5 => known, 3 => Just((0..KNOWN).collect::<Vec<_>>()).prop_shuffle()];
    let unknown = prop_oneof![6 => Just(vec![]), 1 => vec(KNOWN..NODES, 1..=2)];
    let again = prop_oneof![2 => Just(vec![]), 1 => vec(any::<(Index, Index)>(), 1..=3)];
    (known, unknown, again).prop_map(|(mut offered, unknown, again)| {
        offered.extend(unknown);
        for (which, place) in again {
            if !offered.is_empty() {
                let node = offered[which.index(offered.len())];
                offered.insert(place.index(offered.len() + 1), node);
            }
        }
        offered
    })
}

fn source() -> impl Strategy<Value = Source> {
    prop_oneof![3 => Just(Source::File), 2 => Just(Source::Request), 1 => Just(Source::NamesOnly)]
}

fn differences() -> impl Strategy<Value = Differences> {
    let prefix = prop_oneof![3 => Just(Prefix::Name), 1 => Just(Prefix::None)];
    let exempt = prop_oneof![7 => Just(None), 1 => pod::namespace().prop_map(Some)];
    (prefix, exempt).prop_map(|(prefix, exempt)| Differences { prefix, exempt: exempt.into_iter().collect() })
}
