//! The duties of a backend with hooks.

use super::*;
use crate::{Change, Hook, NodeChange, PodChange, Resources, request::NodesRequest};

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
    let changes = [Change::PodLabels, Change::PodTolerations, Change::PodNodeAffinity];
    Info::new("hooked", "1.0")
        .revision("r7")
        .before_filter(Hook::changing(changes))
        .before_filter_nodes(Hook::changing([Change::NodeLabels]))
        .before_score(Hook::changing([Change::PodLabels, Change::NodeLabels]))
}

fn hooked() -> Backend {
    Hooked(info()).into()
}

fn pod_request(namespace: &str) -> api::BeforeFilterRequest {
    api::BeforeFilterRequest { call: Some(call()), pod: Some(pod(namespace)) }
}

fn nodes_request(namespace: &str, names: &[&str]) -> api::BeforeScoreRequest {
    let api::ScoreRequest { call, nodes, .. } = score_request(names);
    api::BeforeScoreRequest { call, pod: Some(pod(namespace)), nodes }
}

fn before_filter(
    backend: &Backend,
    request: &api::BeforeFilterRequest,
) -> Result<api::BeforeFilterResponse, CallError> {
    at_once("BeforeFilter", super::before_filter(backend, &decoded(request), Patience::None)).unwrap()
}

fn before_filter_nodes(
    backend: &Backend,
    request: &api::BeforeScoreRequest,
) -> Result<api::BeforeFilterNodesResponse, CallError> {
    let request: NodesRequest = decoded(request);
    at_once(
        "BeforeFilterNodes",
        super::before_filter_nodes(backend, &Tables::default(), &request, Patience::None),
    )
    .unwrap()
}

fn before_score(
    backend: &Backend,
    request: &api::BeforeScoreRequest,
) -> Result<api::BeforeScoreResponse, CallError> {
    let request: NodesRequest = decoded(request);
    at_once("BeforeScore", super::before_score(backend, &Tables::default(), &request, Patience::None))
        .unwrap()
}

fn closed(positions: &[u32]) -> api::NodeChange {
    let set_labels = [("closed".to_owned(), String::new())].into();
    api::NodeChange { positions: positions.into(), set_labels, ..api::NodeChange::default() }
}

#[test]
fn the_change_of_the_pod_comes_with_its_reason() {
    let answer = before_filter(&hooked(), &pod_request("shop")).unwrap();
    let result = answer.result.unwrap();
    assert_eq!((result.evaluated, result.miss, &*result.revision), (1, 0, "r7"));
    let change = answer.pod.unwrap();
    assert_eq!(change.set_labels["app"], "web");
    assert_eq!(change.reason, "ä".repeat(100), "200 bytes are kept");
    let none = before_filter(&hooked(), &pod_request("none")).unwrap();
    assert_eq!((none.result.unwrap().evaluated, none.pod), (1, None));
}

#[test]
fn nodes_that_change_alike_are_one_entry() {
    let names = ["a", "no-1", "b", "no-2"];
    let answer = before_filter_nodes(&hooked(), &nodes_request("shop", &names)).unwrap();
    let result = answer.result.unwrap();
    assert_eq!((result.evaluated, result.miss, &*result.revision), (4, 0, "r7"));
    assert_eq!(answer.nodes, [closed(&[1, 3])]);
    let answer = before_score(&hooked(), &nodes_request("shop", &names)).unwrap();
    assert_eq!((answer.result.unwrap().evaluated, answer.nodes), (4, vec![closed(&[1, 3])]));
    assert_eq!(answer.pod.unwrap().set_labels["app"], "web");
    let nodes = before_score(&hooked(), &nodes_request("nodes alone", &names)).unwrap();
    assert_eq!((nodes.pod, nodes.nodes.len()), (None, 1));
}

#[test]
fn a_hook_that_is_not_declared_is_not_served() {
    let filters = backend(Info::new("filters", "1").filters(Verb::per_node()));
    let nodes = nodes_request("shop", &["a"]);
    let refused = [
        before_filter(&filters, &pod_request("shop")).unwrap_err(),
        before_filter_nodes(&filters, &nodes).unwrap_err(),
        before_score(&filters, &nodes).unwrap_err(),
    ];
    for (refused, hook) in refused.into_iter().zip(["BeforeFilter", "BeforeFilterNodes", "BeforeScore"]) {
        let expected = format!("this policy does not serve {hook}; its GetInfo does not list it");
        assert_eq!(status(refused), (Code::Unimplemented, expected));
    }
}

#[test]
fn answers_of_another_number_of_nodes_fail_the_call() {
    let backend = hooked();
    let nodes = |namespace: &str| nodes_request(namespace, &["a", "b"]);
    let pod = |namespace| before_filter(&backend, &pod_request(namespace)).unwrap_err();
    let filter = |request| before_filter_nodes(&backend, &request).unwrap_err();
    let score = |request| before_score(&backend, &request).unwrap_err();
    for (error, expected) in [
        (pod("panic"), "beforeFilter failed; see the policy's log"),
        (filter(nodes("panic")), "beforeFilterNodes failed; see the policy's log"),
        (filter(nodes("lost count")), "before_filter_nodes returned 1 answers for 2 nodes"),
        (score(nodes("lost count")), "before_score returned 1 answers for 2 nodes; expected one per node"),
        (score(nodes("pod alone")), "before_score returned 0 answers for 2 nodes"),
    ] {
        let (code, text) = status(error);
        assert_eq!(code, Code::Internal, "{text}");
        assert!(text.starts_with(expected), "{text:?} does not begin with {expected:?}");
    }
    assert!(before_filter(&backend, &pod_request("shop")).is_ok(), "the next one is answered");
}

#[test]
fn a_hook_that_changes_the_pod_alone_returns_no_changes_of_nodes() {
    let info = Info::new("pods", "1").before_score(Hook::changing([Change::PodLabels]));
    let answer = before_score(&Hooked(info).into(), &nodes_request("pod alone", &["a", "b"])).unwrap();
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
    let (stale, nodes) = (Backend::from(Stale), nodes_request("shop", &["a"]));
    let expected = (Code::Unavailable, "the price list is a day old".to_owned());
    assert_eq!(status(before_filter(&stale, &pod_request("shop")).unwrap_err()), expected);
    assert_eq!(status(before_filter_nodes(&stale, &nodes).unwrap_err()), expected);
    assert_eq!(status(before_score(&stale, &nodes).unwrap_err()), expected);
}

#[test]
fn a_request_for_another_declaration_is_not_answered() {
    let mut reads = crate::Reads::new();
    reads.pod(crate::PodPart::Namespace);
    let hook = || Hook::changing([Change::PodLabels]).reads(&reads);
    let backend = Backend::from(Hooked(Info::new("p", "1").before_filter(hook())));
    let (code, text) = status(before_filter(&backend, &pod_request("shop")).unwrap_err());
    assert_eq!(code, Code::FailedPrecondition, "{text}");
    assert!(text.starts_with("call.reads is 0, and this policy now declares reads"), "{text}");
    let declared = backend.policy_for(&[]).unwrap();
    let reads = declared.declaration.verb(api::Verb::BeforeFilter).unwrap().reads_id();
    let call = Some(api::Call { reads, ..call() });
    assert!(before_filter(&backend, &api::BeforeFilterRequest { call, ..pod_request("shop") }).is_ok());
    let (backend, replace) = Backend::replaceable(Hooked(Info::new("p", "1").before_filter(hook()))).unwrap();
    replace.with(Hooked(info())).unwrap();
    let earlier =
        api::BeforeFilterRequest { call: Some(api::Call { reads, ..super::call() }), ..pod_request("shop") };
    assert!(before_filter(&backend, &earlier).is_ok(), "an earlier version answers");
}

#[test]
fn amounts_reach_the_answer() {
    struct Amounts;
    impl Policy for Amounts {
        fn info(&self) -> Info {
            Info::new("amounts", "1").before_filter(Hook::changing([Change::PodRequests]).pure())
        }

        fn before_filter(&self, _: &Pod<'_>) -> PodChange {
            PodChange::none().add_requests(Resources { milli_cpu: -5, ..Resources::default() })
        }
    }
    let change = before_filter(&Amounts.into(), &pod_request("shop")).unwrap().pod.unwrap();
    assert_eq!(change.add_requests.unwrap().milli_cpu, -5);
}
