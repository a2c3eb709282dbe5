//! What the policy API forbids a policy to answer, and a gateway clamps, cleans or notices by chance.

use std::collections::HashMap;

use extender_policy_api::v1beta1 as api;

use super::{TestCandidate, TestNode};
use crate::{
    Backend, NO_OPINION, NodeChange, PodChange,
    backend::{NamedArgs, method},
    error::{CallError, in_sentence},
};

/// The answers about each node; a pure verb is asked twice, the second time with each node at another position.
pub(super) async fn per_node<T: PartialEq>(
    backend: &Backend,
    verb: api::Verb,
    nodes: &[TestNode],
    ask: impl AsyncFn(&[TestNode]) -> Result<Vec<T>, CallError>,
) -> Result<Vec<T>, CallError> {
    let first = ask(nodes).await?;
    if declared(backend, verb)?.effects() == api::Effects::Pure {
        let mut rotated = nodes.to_vec();
        rotated.rotate_right(1);
        let mut again = ask(&rotated).await?;
        again.rotate_left(1);
        if let Some(at) = (0..first.len()).find(|&at| first[at] != again[at]) {
            return impure(verb, &format!("node {:?}", nodes[at].row.name));
        }
    }
    Ok(first)
}

/// The answer about the pod; a pure hook is asked twice.
pub(super) async fn of_pod<T: PartialEq>(
    backend: &Backend,
    verb: api::Verb,
    ask: impl AsyncFn() -> Result<T, CallError>,
) -> Result<T, CallError> {
    let first = ask().await?;
    if declared(backend, verb)?.effects() == api::Effects::Pure && ask().await? != first {
        return impure(verb, "the pod");
    }
    Ok(first)
}

fn impure<T>(verb: api::Verb, about: &str) -> Result<T, CallError> {
    forbidden(format!(
        "{} is declared pure and gave another answer about {about} when it was asked again; a pure verb depends on the pod, \
         the node and the args alone: declare it without pure, or name in the revision what it depends on",
        in_sentence(method(verb)),
    ))
}

fn declared(backend: &Backend, verb: api::Verb) -> Result<api::VerbInfo, CallError> {
    let verbs = backend.policy_for(NamedArgs::whole(&[])?)?.declaration.response.verbs.clone();
    Ok(verbs.into_iter().find(|declared| declared.verb() == verb).unwrap_or_default())
}

/// A hook changes what it declares and nothing else.
pub(super) fn changes(
    backend: &Backend,
    hook: api::Verb,
    answer: &api::ChangeResponse,
) -> Result<(), CallError> {
    let declared = backend.policy_for(NamedArgs::whole(&[])?)?.called(hook)?.changes().clone();
    let of_pod = PodChange::of(answer.pod.clone());
    let of_nodes: Vec<_> = answer.nodes.iter().map(NodeChange::of).collect();
    let mut parts = of_pod.parts().chain(of_nodes.iter().flat_map(NodeChange::parts));
    match parts.find(|part| !declared.contains(part)) {
        None => Ok(()),
        Some(part) => forbidden(format!(
            "{} changes {part:?}, which it does not declare; declare ChangedPart::{part:?} with Hook::changes",
            in_sentence(method(hook)),
        )),
    }
}

/// The error with the node's name in place of its position: in service, the policy may not have declared the name.
pub(super) fn named(error: CallError, candidates: &[TestCandidate]) -> CallError {
    let CallError::WrongVictims { position, .. } = error else { return error };
    let node = format!("node {:?}", candidates[position as usize].node.row.name);
    CallError::Forbidden(error.to_string().replace(&format!("position {position}"), &node))
}

fn forbidden<T>(text: String) -> Result<T, CallError> {
    Err(CallError::Forbidden(text))
}

pub(super) fn scores(backend: &Backend, nodes: &[TestNode], scores: Vec<i32>) -> Result<Vec<i32>, CallError> {
    let scale = declared(backend, api::Verb::Score)?;
    let (least, largest) = (scale.score_min.unwrap_or(i32::MIN), scale.score_max.unwrap_or(i32::MAX));
    let is_outside = |score: i32| score != NO_OPINION && !(least..=largest).contains(&score);
    match scores.iter().zip(nodes).find(|(score, _)| is_outside(**score)) {
        None => Ok(scores),
        Some((score, node)) => forbidden(format!(
            "score returned {score} for node {:?}; the declared scale is {least} to {largest}: clamp the score, or declare \
             another scale",
            node.row.name
        )),
    }
}

pub(super) fn reasons(rejected: Vec<(String, String)>) -> Result<Vec<(String, String)>, CallError> {
    let mut known = HashMap::new();
    for (node, reason) in &rejected {
        if reason.trim().is_empty() {
            return forbidden(format!(
                "filter rejects node {node:?} without a reason; say in a constant text what is wrong with the node"
            ));
        }
        if reason.contains(char::is_control) {
            return forbidden(format!(
                "filter rejects node {node:?} with the reason {reason:?}, which has control characters; write one line of text"
            ));
        }
        let (other_node, other) = *known.entry(without_numbers(reason)).or_insert((node, reason));
        if other != reason {
            return forbidden(format!(
                "filter rejects node {other_node:?} with the reason {other:?} and node {node:?} with {reason:?}; leave numbers out \
                 of reasons: each new text makes kube-scheduler retry the pod"
            ));
        }
    }
    Ok(rejected)
}

/// A number is one that is no part of a name such as rack-1.
fn without_numbers(text: &str) -> String {
    let (mut before, mut in_number) = (' ', false);
    let of_text = |&character: &char| {
        let begins = character.is_numeric() && !before.is_alphanumeric() && !"_./:-".contains(before);
        in_number = begins || in_number && (character.is_numeric() || ".,".contains(character));
        before = character;
        !in_number
    };
    text.chars().filter(of_text).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicI32, Ordering};

    use super::super::*;
    use crate::{
        Candidate, ChangedPart, Eviction, Hook, Info, Node, NodeChange, NodePart, Nodes, Pod, PodChange,
        Reads, Scale, Verb, Verdict,
    };

    /// Answers by functions of the node and of how often it was asked.
    struct Faulty {
        reason: fn(&Node<'_>, i32) -> Option<String>,
        score: fn(i32) -> i32,
        asked: AtomicI32,
    }

    impl Policy for Faulty {
        fn info(&self) -> Info {
            let mut reads = Reads::new();
            reads.node(NodePart::Name);
            let verb = Verb::per_node().pure().reads(&reads);
            let info = Info::new("p", "1").filters(verb.clone()).scores(verb, Scale::between(0..=10));
            let hook = Hook::changes([ChangedPart::NodeLabels]).pure();
            info.before_filter(Hook::changes([ChangedPart::PodLabels]).pure())
                .before_filter_nodes(hook.clone())
                .before_score(hook)
                .preempts(Verb::per_node())
                .binds()
        }

        fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
            let reason = (self.reason)(node, self.asked.fetch_add(1, Ordering::Relaxed));
            reason.map_or(Verdict::Accept, Verdict::reject)
        }

        fn preempt(&self, _: &Pod<'_>, _: &Candidate<'_>) -> Eviction {
            Eviction::Only(vec![0, 7])
        }

        fn score(&self, _: &Pod<'_>, _: &Node<'_>) -> i32 {
            (self.score)(self.asked.fetch_add(1, Ordering::Relaxed))
        }

        fn before_filter(&self, _: &Pod<'_>) -> PodChange {
            PodChange::none().set_label("asked", self.asked.fetch_add(1, Ordering::Relaxed).to_string())
        }

        fn before_score(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
            (PodChange::none(), nodes.iter().map(|node| self.before_filter_node(pod, &node)).collect())
        }

        fn before_filter_node(&self, _: &Pod<'_>, _: &Node<'_>) -> NodeChange {
            NodeChange::none().set_label("asked", self.asked.fetch_add(1, Ordering::Relaxed).to_string())
        }
    }

    fn rejecting(reason: fn(&Node<'_>, i32) -> Option<String>) -> Faulty {
        Faulty { reason, score: |asked| asked, asked: AtomicI32::new(0) }
    }

    #[tokio::test]
    async fn what_the_policy_api_forbids_fails_the_test() {
        let (pod, nodes) = (TestPod::new("shop"), ["a", "b", "c"].map(TestNode::new));
        let text = |error: Option<NoAnswer>| error.map(|error| error.to_string()).unwrap_or_default();
        let filtered = |reason| text(filter(rejecting(reason), &pod, &nodes).err());
        let scored =
            |score| text(super::super::score(Faulty { score, ..rejecting(|_, _| None) }, &pod, &nodes).err());
        let used: fn(&Node<'_>, i32) -> _ = |node, _| node.usage().map(|_| "used".into());
        let asked = [
            (
                scored(|_| 1_000),
                "score returned 1000 for node \"a\"; the declared scale is 0 to 10: clamp the score",
            ),
            (scored(|asked| asked), "score is declared pure and gave another answer about node \"a\""),
            (
                filtered(|_, _| Some(" ".into())),
                "filter rejects node \"a\" without a reason; say in a constant text",
            ),
            (
                filtered(|_, _| Some("no\nway".into())),
                "filter rejects node \"a\" with the reason \"no\\nway\", which has control characters; write one line",
            ),
            (
                filtered(|node, _| Some(format!("{} of 5 slots used", node.name().as_bytes()[0] - b'a'))),
                "filter rejects node \"a\" with the reason \"0 of 5 slots used\" and node \"b\" with \"1 of 5 slots used\"; leave",
            ),
            (filtered(|node, _| Some(format!("rack-{} is drained", node.name().as_bytes()[0]))), ""),
            (
                filtered(|_, asked| (asked == 0).then(|| "taken".into())),
                "filter is declared pure and gave another answer about node \"a\" when it was asked again; a pure verb",
            ),
            (
                filtered(used),
                "filter failed: Usage of the node is read and not declared; declare it with Reads::node(NodePart::Usage)",
            ),
            (
                text(before_filter_nodes(rejecting(used), &pod, &nodes).err()),
                "beforeFilterNodes is declared pure and gave another answer about node \"a\"",
            ),
            (
                text(before_filter(rejecting(used), &pod).err()),
                "beforeFilter is declared pure and gave another answer about the pod when it was asked again; a pure verb",
            ),
            (
                text(before_score(rejecting(used), &pod, &nodes).err()),
                "beforeScore is declared pure and gave another answer about node \"a\"",
            ),
            (
                text(preempt(rejecting(used), &pod, &[TestCandidate::new(nodes[1].clone())]).err()),
                "preempt returned victims [0, 7] for node \"b\", which has 0; expected each at most once",
            ),
            (
                text(bind(rejecting(used), &pod, "a").await.err()),
                "bind failed: it declares Info::binds and has no method for it; write bind, or remove the declaration",
            ),
        ];
        let is_wrong = |(error, expected): &&(String, &str)| {
            !error.starts_with(*expected) || error.is_empty() != expected.is_empty()
        };
        let wrong: Vec<_> = asked.iter().filter(is_wrong).collect();
        assert!(wrong.is_empty(), "{wrong:#?}");
        assert_eq!(filter(everything(rejecting(used)), &pod, &nodes), Ok(Vec::new()));
    }

    /// Its hooks return what they were made with, and declare something else.
    struct Undeclared(PodChange, NodeChange);

    impl Policy for Undeclared {
        fn info(&self) -> Info {
            let hook = Hook::changes([ChangedPart::PodRequests, ChangedPart::NodeUsage]);
            Info::new("p", "1")
                .before_filter(hook.clone())
                .before_filter_nodes(hook.clone())
                .before_score(hook)
        }

        fn before_filter(&self, _: &Pod<'_>) -> PodChange {
            self.0.clone()
        }

        fn before_filter_node(&self, _: &Pod<'_>, _: &Node<'_>) -> NodeChange {
            self.1.clone()
        }

        fn before_score(&self, _: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
            (self.0.clone(), vec![self.1.clone(); nodes.len()])
        }
    }

    #[test]
    fn a_change_that_is_not_declared_fails_the_test() {
        let (pod, nodes) = (TestPod::new("shop"), [TestNode::new("a")]);
        let (of_pod, of_node) = (PodChange::none, NodeChange::none);
        let affinity = of_pod().pod_affinity(crate::PodAffinity::default());
        for (of_pod, of_node, part) in [
            (of_pod().add_requests(api::Resources { pods: 1, ..api::Resources::default() }), of_node(), None),
            (of_pod(), of_node().hold(api::Resources::default(), []), None),
            (of_pod().set_label("a", ""), of_node(), Some(ChangedPart::PodLabels)),
            (of_pod().set_annotation("a", ""), of_node(), Some(ChangedPart::PodAnnotations)),
            (of_pod().remove_annotation("a"), of_node(), Some(ChangedPart::PodAnnotations)),
            (affinity, of_node(), Some(ChangedPart::PodAffinity)),
            (of_pod().topology_spread([]), of_node(), Some(ChangedPart::PodTopologySpread)),
            (of_pod(), of_node().set_label("a", ""), Some(ChangedPart::NodeLabels)),
        ] {
            let policy = || Undeclared(of_pod.clone(), of_node.clone());
            let asked = [
                ("beforeFilter", before_filter(policy(), &pod).err(), part.filter(|part| part.is_of_pod())),
                (
                    "beforeFilterNodes",
                    before_filter_nodes(policy(), &pod, &nodes).err(),
                    part.filter(|part| !part.is_of_pod()),
                ),
                ("beforeScore", before_score(policy(), &pod, &nodes).err(), part),
            ];
            for (hook, error, part) in asked {
                let expected = part.map(|part| format!("{hook} changes {part:?}, which it does not declare"));
                let text = error.map(|error| error.to_string());
                let text =
                    text.as_deref().and_then(|text| text.split_once(';')).map(|(text, _)| text.to_owned());
                assert_eq!(text, expected);
            }
        }
    }

    #[test]
    fn no_opinion_is_on_every_scale() {
        let scores = |score| {
            let policy = Faulty { score, ..rejecting(|_, _| None) };
            super::super::score(policy, &TestPod::new("shop"), &[TestNode::new("a")])
        };
        assert_eq!(scores(|_| NO_OPINION), Ok(vec![NO_OPINION]));
        assert!(scores(|_| NO_OPINION + 1).is_err());
    }
}
