//! The duties of a backend with hooks.

use super::*;
use crate::{ChangedPart, Hook, NodeChange, PodChange, Resources, request::ChangeRequest};

/// Does what the namespace of the pod says; closes nodes named "no…".
struct Hooked(Info);

impl Policy for Hooked {
    fn info(&self) -> Info {
        self.0.clone()
    }

    fn before_filter(&self, pod: &Pod<'_>) -> PodChange {
        match pod.namespace() {
            "panic" => panic!("as asked"),
            "none" => PodChange::none().reason("for no reason"),
            _ => PodChange::none().set_label("app", "web").reason("ä".repeat(101)),
        }
    }

    fn before_filter_node(&self, pod: &Pod<'_>, node: &Node<'_>) -> NodeChange {
        match pod.namespace() {
            "panic" => panic!("as asked"),
            _ if node.name().starts_with("no") => NodeChange::none().set_label("closed", ""),
            _ => NodeChange::none(),
        }
    }

    fn before_filter_nodes(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<NodeChange> {
        let missing = usize::from(pod.namespace() == "lost count");
        nodes.iter().skip(missing).map(|node| self.before_filter_node(pod, &node)).collect()
    }

    fn before_score(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        let nodes = self.before_filter_nodes(pod, nodes);
        match pod.namespace() {
            "pod alone" => (self.before_filter(pod), Vec::new()),
            "nodes alone" => (PodChange::none(), nodes),
            _ => (self.before_filter(pod), nodes),
        }
    }
}

fn info() -> Info {
    let changes = [ChangedPart::PodLabels, ChangedPart::PodTolerations, ChangedPart::PodNodeAffinity];
    Info::new("hooked", "1.0")
        .revision("r7")
        .before_filter(changing(changes))
        .before_filter_nodes(changing([ChangedPart::NodeLabels]))
        .before_score(changing([ChangedPart::PodLabels, ChangedPart::NodeLabels]))
}

fn changing(parts: impl IntoIterator<Item = ChangedPart>) -> Hook {
    Hook::changes(parts).reads(&Reads::everything())
}

fn hooked() -> Backend {
    Hooked(info()).into()
}

fn pod_request(namespace: &str) -> api::ChangeRequest {
    let hook = api::Verb::BeforeFilter.into();
    let call = api::Call { reads: reads_of(info(), api::Verb::BeforeFilter), ..call() };
    api::ChangeRequest { call: Some(call), pod: Some(pod(namespace)), nodes: None, hook }
}

fn nodes_request(hook: api::Verb, namespace: &str, names: &[&str]) -> api::ChangeRequest {
    let api::ScoreRequest { call, nodes, .. } = score_request(names);
    api::ChangeRequest { call, pod: Some(pod(namespace)), nodes, hook: hook.into() }
}

fn before_filter_nodes(namespace: &str, names: &[&str]) -> api::ChangeRequest {
    nodes_request(api::Verb::BeforeFilterNodes, namespace, names)
}

fn before_score(namespace: &str, names: &[&str]) -> api::ChangeRequest {
    nodes_request(api::Verb::BeforeScore, namespace, names)
}

fn changed(backend: &Backend, request: &api::ChangeRequest) -> Result<api::ChangeResponse, CallError> {
    let (request, tables) = (decoded(request), Tables::default());
    at_once(method(ChangeRequest::hook(&request)), change(backend, &tables, &request, Patience::None))
        .unwrap()
}

fn closed(positions: &[u32]) -> api::NodeChange {
    let set_labels = [("closed".to_owned(), String::new())].into();
    api::NodeChange { positions: positions.into(), set_labels, ..api::NodeChange::default() }
}

#[test]
fn the_change_of_the_pod_comes_with_its_reason() {
    let answer = changed(&hooked(), &pod_request("shop")).unwrap();
    let result = answer.result.unwrap();
    assert_eq!((result.outcome, &*result.revision), (Some(Outcome::Evaluated(1)), "r7"));
    let change = answer.pod.unwrap();
    assert_eq!(change.set_labels["app"], "web");
    assert_eq!(change.reason, "ä".repeat(100), "200 bytes are kept");
    let none = changed(&hooked(), &pod_request("none")).unwrap();
    assert_eq!((evaluated(none.result), none.pod), (1, None));
}

#[test]
fn nodes_that_change_alike_are_one_entry() {
    let names = ["a", "no-1", "b", "no-2"];
    let answer = changed(&hooked(), &before_filter_nodes("shop", &names)).unwrap();
    let result = answer.result.unwrap();
    assert_eq!((result.outcome, &*result.revision), (Some(Outcome::Evaluated(4)), "r7"));
    assert_eq!(answer.nodes, [closed(&[1, 3])]);
    let answer = changed(&hooked(), &before_score("shop", &names)).unwrap();
    assert_eq!((evaluated(answer.result), answer.nodes), (4, vec![closed(&[1, 3])]));
    assert_eq!(answer.pod.unwrap().set_labels["app"], "web");
    let nodes = changed(&hooked(), &before_score("nodes alone", &names)).unwrap();
    assert_eq!((nodes.pod, nodes.nodes.len()), (None, 1));
}

#[test]
fn a_hook_that_is_not_declared_is_not_served() {
    let filters = backend(Info::new("filters", "1").filters(Verb::per_node()));
    let requests = [pod_request("shop"), before_filter_nodes("shop", &["a"]), before_score("shop", &["a"])];
    let refused = requests.map(|request| changed(&filters, &request).unwrap_err());
    for (refused, hook) in refused.into_iter().zip(["BeforeFilter", "BeforeFilterNodes", "BeforeScore"]) {
        let expected = format!("this policy does not serve {hook}; its GetInfo does not list it");
        assert_eq!(status(refused), (Code::Unimplemented, expected));
    }
}

#[test]
fn a_request_is_for_one_hook_and_has_what_this_one_is_about() {
    let nodes = before_filter_nodes("shop", &["a"]).nodes;
    let unknown = |hook| api::ChangeRequest { hook, ..pod_request("shop") };
    for (request, expected) in [
        (unknown(0), "hook is missing"),
        (unknown(99), "hook is 99; expected VERB_BEFORE_FILTER"),
        (unknown(api::Verb::Filter.into()), "hook is 1; expected VERB_BEFORE_FILTER"),
        (
            api::ChangeRequest { nodes, ..pod_request("shop") },
            "nodes is set; VERB_BEFORE_FILTER is about the pod",
        ),
        (api::ChangeRequest { nodes: None, ..before_filter_nodes("shop", &[]) }, "nodes is missing"),
        (api::ChangeRequest { nodes: None, ..before_score("shop", &[]) }, "nodes is missing"),
    ] {
        let (code, text) = status(changed(&hooked(), &request).unwrap_err());
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.starts_with(expected), "{text:?} does not begin with {expected:?}");
    }
}

#[test]
fn answers_of_another_number_of_nodes_fail_the_call() {
    let backend = hooked();
    let pod = |namespace| changed(&backend, &pod_request(namespace)).unwrap_err();
    let filter = |namespace| changed(&backend, &before_filter_nodes(namespace, &["a", "b"])).unwrap_err();
    let score = |namespace| changed(&backend, &before_score(namespace, &["a", "b"])).unwrap_err();
    for (error, expected) in [
        (pod("panic"), "beforeFilter failed; see the policy's log"),
        (filter("panic"), "beforeFilterNodes failed; see the policy's log"),
        (filter("lost count"), "before_filter_nodes returned 1 answers for 2 nodes"),
        (score("lost count"), "before_score returned 1 answers for 2 nodes; expected one per node"),
        (score("pod alone"), "before_score returned 0 answers for 2 nodes"),
    ] {
        let (code, text) = status(error);
        assert_eq!(code, Code::Internal, "{text}");
        assert!(text.starts_with(expected), "{text:?} does not begin with {expected:?}");
    }
    assert!(changed(&backend, &pod_request("shop")).is_ok(), "the next one is answered");
}

#[test]
fn a_hook_that_changes_the_pod_alone_returns_no_changes_of_nodes() {
    let info = Info::new("pods", "1").before_score(changing([ChangedPart::PodLabels]));
    let answer = changed(&Hooked(info).into(), &before_score("pod alone", &["a", "b"])).unwrap();
    assert_eq!((answer.pod.unwrap().set_labels.len(), answer.nodes), (1, vec![]));
}

#[test]
fn a_policy_that_cannot_decide_now_is_unavailable() {
    struct Stale;
    impl Policy for Stale {
        fn info(&self) -> Info {
            info()
        }

        fn ready(&self) -> Result<(), NotReady> {
            Err(NotReady("the price list is a day old".into()))
        }
    }
    for request in [pod_request("shop"), before_filter_nodes("shop", &["a"]), before_score("shop", &["a"])] {
        let refused = status(changed(&Stale.into(), &request).unwrap_err());
        assert_eq!(refused, (Code::Unavailable, "the price list is a day old".to_owned()));
    }
}

#[test]
fn a_request_for_another_declaration_is_not_answered() {
    let mut reads = Reads::new();
    reads.pod(crate::PodPart::Namespace);
    let hook = || Hook::changes([ChangedPart::PodLabels]).reads(&reads);
    let backend = Backend::from(Hooked(Info::new("p", "1").before_filter(hook())));
    let (code, text) = status(changed(&backend, &pod_request("shop")).unwrap_err());
    assert_eq!(code, Code::FailedPrecondition, "{text}");
    assert!(text.starts_with("call.reads is not the SHA-256 of what this policy now declares"), "{text}");
    let reads = reads_of(Info::new("p", "1").before_filter(hook()), api::Verb::BeforeFilter);
    let call = Some(api::Call { reads, ..call() });
    let request = api::ChangeRequest { call, ..pod_request("shop") };
    assert!(changed(&backend, &request).is_ok());
    let (backend, replace) = Backend::replaceable(Hooked(Info::new("p", "1").before_filter(hook()))).unwrap();
    replace.with(Hooked(info())).unwrap();
    assert!(changed(&backend, &request).is_ok(), "an earlier version answers");
}

#[test]
fn amounts_reach_the_answer() {
    struct Amounts;
    impl Policy for Amounts {
        fn info(&self) -> Info {
            Info::new("amounts", "1").before_filter(changing([ChangedPart::PodRequests]).pure())
        }

        fn before_filter(&self, _: &Pod<'_>) -> PodChange {
            PodChange::none().add_requests(Resources { milli_cpu: -5, ..Resources::default() })
        }
    }
    let change = changed(&Amounts.into(), &pod_request("shop")).unwrap().pod.unwrap();
    assert_eq!(change.add_requests.unwrap().milli_cpu, -5);
}
