//! The duties of a backend, one test each.

mod hooks;
mod reads;

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use prost::{Message, bytes::Bytes};
use tonic::{Code, Status};

use super::*;
use crate::{
    Args, ArgsError, Eviction, Info, NO_OPINION, Node, NodePart, Nodes, NotReady, Pod, Policy, Reads, Scale,
    Verb, digest::sha256, info::declaration::Declaration, request::Form,
};

/// A request as it is read from the socket.
fn decoded<R: Message + Default>(request: &impl Message) -> R {
    R::decode(&*request.encode_to_vec()).unwrap()
}

fn filter(backend: &Backend, request: &api::FilterRequest) -> Result<api::FilterResponse, CallError> {
    at_once("Filter", super::filter(backend, &Tables::default(), &decoded(request), Patience::None)).unwrap()
}

fn score(backend: &Backend, request: &api::ScoreRequest) -> Result<api::ScoreResponse, CallError> {
    at_once("Score", super::score(backend, &Tables::default(), &decoded(request), Patience::None)).unwrap()
}

/// Does what the namespace of the pod says; refuses nodes named "no…", scores by length of the name.
struct Scripted(Info);

impl Policy for Scripted {
    fn info(&self) -> Info {
        self.0.clone()
    }

    fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
        assert!(pod.namespace() != "panic", "no verdict about {}", node.name());
        if node.name().starts_with("no") { Verdict::reject("its name") } else { Verdict::Accept }
    }

    fn score(&self, _: &Pod<'_>, node: &Node<'_>) -> i32 {
        i32::try_from(node.name().len()).unwrap()
    }

    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        let missing = usize::from(pod.namespace() == "lost count");
        nodes.iter().skip(missing).map(|node| self.filter(pod, &node)).collect()
    }
}

struct Stale;

impl Policy for Stale {
    fn info(&self) -> Info {
        both()
    }

    fn ready(&self) -> Result<(), NotReady> {
        Err(NotReady("the price list is a day old".into()))
    }
}

fn both() -> Info {
    Info::new("scripted", "1.0")
        .revision("r7")
        .filters(everything())
        .scores(everything(), Scale::between(0..=9))
}

fn everything() -> Verb {
    Verb::per_node().reads(&Reads::everything())
}

/// `Call.reads` for a verb of this policy.
fn reads_of(info: Info, verb: api::Verb) -> Bytes {
    Bytes::copy_from_slice(Declaration::new(info).unwrap().verb(verb).unwrap().reads_digest())
}

fn backend(info: Info) -> Backend {
    Scripted(info).into()
}

/// For a verb that reads everything.
fn call() -> api::Call {
    let reads = reads_of(both(), api::Verb::Filter);
    api::Call { purpose: api::Purpose::Decide.into(), reads, ..api::Call::default() }
}

fn pod(namespace: &str) -> api::Pod {
    let facts = api::PodFacts { namespace: namespace.into(), ..api::PodFacts::default() };
    api::Pod { facts: Some(facts), ..api::Pod::default() }
}

fn rows(names: &[&str]) -> Vec<api::NodeRow> {
    let row = |name: &&str| api::NodeRow {
        name: (*name).into(),
        facts: Some(api::NodeFacts::default()),
        ..api::NodeRow::default()
    };
    names.iter().map(row).collect()
}

fn nodes(rows: Vec<api::NodeRow>) -> api::Nodes {
    let count = u32::try_from(rows.len()).unwrap();
    api::Nodes { count, form: Some(api::nodes::Form::Rows(api::NodeRows { rows })) }
}

fn request(names: &[&str]) -> api::FilterRequest {
    api::FilterRequest {
        call: Some(call()),
        pod: Some(pod("shop")),
        nodes: Some(nodes(rows(names))),
        want_scores: false,
    }
}

fn score_request(names: &[&str]) -> api::ScoreRequest {
    let api::FilterRequest { call, pod, nodes, .. } = request(names);
    api::ScoreRequest { call, pod, nodes }
}

fn evaluated(result: Option<api::Result>) -> u32 {
    match result.unwrap().outcome {
        Some(Outcome::Evaluated(count)) => count,
        other => panic!("no answer: {other:?}"),
    }
}

/// A call with these args, by their digest and in full.
fn call_with(json: &'static str) -> api::Call {
    let args_sha256 = sha256(json.as_bytes()).to_vec().into();
    api::Call { args: json.into(), args_sha256, ..call() }
}

/// What the gateway would receive.
fn status(error: CallError) -> (Code, String) {
    let status = Status::from(error);
    (status.code(), status.message().to_owned())
}

#[test]
fn refused_nodes_are_named_by_position_and_the_rest_is_accepted() {
    let answer = filter(&backend(both()), &request(&["a", "no-1", "b", "no-2"])).unwrap();
    let result = answer.result.unwrap();
    assert_eq!((result.outcome, &*result.revision), (Some(Outcome::Evaluated(4)), "r7"));
    let [rejection] = &answer.rejections[..] else {
        panic!("one reason, one entry: {:?}", answer.rejections)
    };
    assert_eq!((&*rejection.reason, &*rejection.positions), ("its name", &[1, 3][..]));
    assert_eq!(answer.scores, None);
}

#[test]
fn each_node_is_scored_in_order() {
    let answer = score(&backend(both()), &score_request(&["aaa", "b"])).unwrap();
    assert_eq!(answer.scores.unwrap().values, [3, 1]);
    assert_eq!(evaluated(answer.result), 2);
}

#[test]
fn scores_come_with_the_verdicts_only_where_they_may() {
    let filters = || Info::new("s", "1").filters(everything());
    let set = Verb::whole_set().reads(&Reads::everything());
    let cases = [
        (both(), Some(vec![1, 4])),
        (filters(), None),
        (filters().scores(set, Scale::unbounded()), None),
        (filters().scores(everything().side_effects(), Scale::unbounded()), None),
    ];
    for (info, expected) in cases {
        let wanted = api::FilterRequest { want_scores: true, ..request(&["a", "no-1"]) };
        let scores = filter(&backend(info.clone()), &wanted).unwrap().scores;
        assert_eq!(scores.map(|scores| scores.values), expected, "{info:?}");
    }
}

#[test]
fn a_request_that_is_not_whole_is_refused_and_says_why() {
    type Change = fn(&mut api::FilterRequest);
    let cases: [(Change, &str); 10] = [
        (|r| r.call = None, "call is missing"),
        (|r| r.call.as_mut().unwrap().purpose = 0, "call.purpose is missing"),
        (|r| r.pod = None, "pod is missing"),
        (|r| r.pod = Some(api::Pod::default()), "pod.facts is missing"),
        (|r| r.nodes = None, "nodes is missing"),
        (|r| r.nodes.as_mut().unwrap().count = 3, "nodes.count is 3 and there are 2 rows"),
        (|r| r.nodes = Some(nodes(vec![])), "nodes.count is 0"),
        (|r| r.nodes = Some(nodes(rows(&["a", ""]))), "nodes.rows.rows[1].name is missing"),
        (
            |r| r.nodes = Some(nodes(vec![api::NodeRow { name: "a".into(), ..Default::default() }])),
            "nodes.rows.rows[0].facts is missing",
        ),
        (|r| r.call = Some(call_with("{\"a\":1}")), "this policy takes no args; remove `args`"),
    ];
    for (change, expected) in cases {
        let mut request = request(&["a", "b"]);
        change(&mut request);
        let (code, text) = status(filter(&backend(both()), &request).unwrap_err());
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
}

#[test]
fn a_broken_row_is_named_by_its_position() {
    let cases: [(&[u8], &str); 3] = [
        (b"\x0a\x09a", "buffer underflow"),
        (b"\x0a\x01\xff", "NodeRow.name: invalid string value"),
        (b"\x0a\x01b\x12\x08\x62\x06\x1a\x04\x0a\x02a\xff", "NodeFacts.labels: "),
    ];
    for (row, expected) in cases {
        let mut request: FilterRequest = decoded(&request(&["a", "b"]));
        let Some(Form::Rows(form)) = &mut request.nodes.as_mut().unwrap().form else { panic!("{request:?}") };
        form.rows[1] = row.to_vec().into();
        let (code, text) = status(
            at_once("Filter", super::filter(&backend(both()), &Tables::default(), &request, Patience::None))
                .unwrap()
                .unwrap_err(),
        );
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.starts_with("nodes.rows.rows[1] is not a NodeRow: "), "{text}");
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
}

#[test]
fn a_policy_that_reads_names_alone_needs_no_facts() {
    struct Names;
    impl Policy for Names {
        fn info(&self) -> Info {
            let mut reads = Reads::new();
            reads.node(NodePart::Name);
            Info::new("names", "1").filters(Verb::per_node().reads(&reads))
        }

        fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
            Verdict::reject(node.name().to_owned())
        }
    }
    let row = api::NodeRow { name: "a".into(), ..api::NodeRow::default() };
    let call = Some(api::Call { reads: reads_of(Names.info(), api::Verb::Filter), ..call() });
    let request = api::FilterRequest { call, nodes: Some(nodes(vec![row])), ..request(&[]) };
    let answer = filter(&Names.into(), &request).unwrap();
    assert_eq!((evaluated(answer.result), &*answer.rejections[0].reason), (1, "a"));
}

#[test]
fn a_node_without_an_opinion_has_no_score() {
    struct Opinions;
    impl Policy for Opinions {
        fn info(&self) -> Info {
            both()
        }

        fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
            Verdict::Accept
        }

        fn score(&self, _: &Pod<'_>, node: &Node<'_>) -> i32 {
            if node.name().starts_with("no") { NO_OPINION } else { 7 }
        }
    }
    let expected = Some(api::Scores { values: vec![0, 7, 0], absent: vec![0, 2] });
    let backend = Backend::from(Opinions);
    let names = ["no-1", "a", "no-2"];
    assert_eq!(score(&backend, &score_request(&names)).unwrap().scores, expected);
    let early = api::FilterRequest { want_scores: true, ..request(&names) };
    assert_eq!(filter(&backend, &early).unwrap().scores, expected);
}

#[test]
fn a_panic_fails_its_call_and_the_next_one_is_answered() {
    let backend = backend(both());
    let bad = api::FilterRequest { pod: Some(pod("panic")), ..request(&["a"]) };
    let (code, text) = status(filter(&backend, &bad).unwrap_err());
    assert_eq!((code, &*text), (Code::Internal, "filter failed; see the policy's log"));
    assert!(filter(&backend, &request(&["a"])).is_ok());
}

#[test]
fn a_policy_that_lost_count_is_an_error_and_no_acceptance() {
    let bad = api::FilterRequest { pod: Some(pod("lost count")), ..request(&["no", "b"]) };
    let (code, text) = status(filter(&backend(both()), &bad).unwrap_err());
    assert_eq!(code, Code::Internal);
    assert_eq!(text, "filter_all returned 1 answers for 2 nodes; expected one per node");
}

#[test]
fn a_policy_that_cannot_decide_now_is_unavailable() {
    let backend = Backend::from(Stale);
    let expected = (Code::Unavailable, "the price list is a day old".to_owned());
    assert_eq!(status(filter(&backend, &request(&["a"])).unwrap_err()), expected);
    assert_eq!(status(score(&backend, &score_request(&["a"])).unwrap_err()), expected);
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    name: String,
}

impl Policy for Named {
    fn info(&self) -> Info {
        let info = Info::new(&self.name, "1");
        if self.name.is_empty() { info } else { info.filters(everything()) }
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::Accept
    }
}

fn with_args(json: &'static str) -> api::FilterRequest {
    api::FilterRequest { call: Some(call_with(json)), ..request(&["a"]) }
}

#[test]
fn args_choose_the_policy_and_are_read_once() {
    let built = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&built);
    let backend = Backend::configured(move |args| {
        count.fetch_add(1, Ordering::Relaxed);
        args.parse::<Named>()
    });
    for name in ["x", "y", "x", "y"] {
        let args = format!("{{\"name\":\"{name}\"}}").into();
        let info = info(&backend, &api::GetInfoRequest { args, ..Default::default() }).unwrap();
        assert_eq!(info.name, name);
    }
    assert!(filter(&backend, &with_args("{\"name\":\"x\"}")).is_ok());
    assert_eq!(built.load(Ordering::Relaxed), 2);
}

#[test]
fn args_that_are_not_known_are_sent_once() {
    let named = Backend::configured(Args::parse::<Named>);
    for (backend, json) in [(named, "{\"name\":\"x\"}"), (backend(both()), "{ }")] {
        let whole = with_args(json);
        let call = Some(api::Call { args: Bytes::new(), ..whole.call.clone().unwrap() });
        let digest_alone = api::FilterRequest { call, ..whole.clone() };
        let refused = Status::from(filter(&backend, &digest_alone).unwrap_err());
        let expected = (Code::FailedPrecondition, "the args of this call are not known here; send them");
        assert_eq!((refused.code(), refused.message()), expected);
        assert_eq!(refused.metadata().get("extender-reason").unwrap(), "ERROR_REASON_ARGS_UNKNOWN");
        assert!(filter(&backend, &whole).is_ok());
        assert!(filter(&backend, &digest_alone).is_ok(), "{json} is known now");
        assert!(filter(&backend, &whole).is_ok());
    }
}

#[test]
fn args_of_the_handshake_are_known_to_calls() {
    let backend = Backend::configured(Args::parse::<Named>);
    let args = "{\"name\":\"x\"}".into();
    info(&backend, &api::GetInfoRequest { args, ..Default::default() }).unwrap();
    let mut request = with_args("{\"name\":\"x\"}");
    request.call.as_mut().unwrap().args = Bytes::new();
    assert!(filter(&backend, &request).is_ok());
}

#[test]
fn args_that_are_not_those_of_their_digest_are_refused() {
    let backend = Backend::configured(Args::parse::<Named>);
    assert!(filter(&backend, &with_args("{\"name\":\"x\"}")).is_ok());
    let known = call_with("{\"name\":\"x\"}");
    for (call, expected) in [
        (api::Call { args_sha256: Bytes::new(), ..known.clone() }, "call.args_sha256 is missing"),
        (api::Call { args_sha256: vec![7; 31].into(), ..known.clone() }, "call.args_sha256 is no SHA-256"),
        (
            api::Call { args_sha256: vec![7; 33].into(), args: Bytes::new(), ..known.clone() },
            "call.args_sha256 is no",
        ),
        (
            api::Call { args: "{}".into(), ..known.clone() },
            "call.args_sha256 is not the SHA-256 of call.args",
        ),
        (
            api::Call { args_sha256: vec![7; 32].into(), ..known },
            "call.args_sha256 is not the SHA-256 of call.args",
        ),
    ] {
        let status = Status::from(
            filter(&backend, &api::FilterRequest { call: Some(call), ..request(&["a"]) }).unwrap_err(),
        );
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().starts_with(expected), "{status:?} does not begin with {expected:?}");
        assert_eq!(status.metadata().get("extender-reason").unwrap(), "ERROR_REASON_INVALID_REQUEST");
    }
}

#[test]
fn wrong_args_and_what_they_declare_are_refused() {
    let parsed = Backend::configured(Args::parse::<Named>);
    let refused = Backend::configured(|_| Err::<Named, _>(ArgsError::new("label: no node has it")));
    let cases = [
        (&parsed, "{}", Code::InvalidArgument, "missing field `name`"),
        (&parsed, "[]", Code::InvalidArgument, "args is not a JSON object"),
        (&refused, "{}", Code::InvalidArgument, "label: no node has it"),
        (&parsed, "{\"name\":\"\"}", Code::Internal, "no verb is declared"),
    ];
    for (backend, args, expected, sentence) in cases {
        let (code, text) = status(filter(backend, &with_args(args)).unwrap_err());
        assert_eq!(code, expected, "{text}");
        assert!(text.contains(sentence), "{text:?} lacks {sentence:?}");
    }
}

#[test]
fn a_replaced_policy_answers_under_its_own_revision() {
    let (backend, replace) = Backend::replaceable(Scripted(both())).unwrap();
    let revision = || filter(&backend, &request(&["a"])).unwrap().result.unwrap().revision;
    assert_eq!(revision(), "r7");
    replace.with(Scripted(both().revision("r8"))).unwrap();
    assert_eq!(revision(), "r8");
    // After a mistake the old one stays in service.
    assert!(replace.with(Scripted(Info::new("s", "1"))).is_err());
    assert_eq!(revision(), "r8");
}

/// Evicts what the namespace of the pod says.
struct Evicting;

impl Policy for Evicting {
    fn info(&self) -> Info {
        Info::new("evicting", "1").preempts(everything())
    }

    fn preempt(&self, pod: &Pod<'_>, candidate: &Candidate<'_>) -> Eviction {
        match pod.namespace() {
            "without b" => Eviction::of(candidate, |victim| victim.uid() != "b"),
            "twice" => Eviction::Only(vec![0, 0]),
            "beyond" => Eviction::Only(vec![2]),
            "nobody" => Eviction::Only(vec![]),
            "others" => Eviction::Changed { victims: vec![0], added: vec!["x".into()], pdb_violations: 2 },
            _ => Eviction::All,
        }
    }
}

fn candidate(uids: &[&str]) -> api::Candidate {
    let victims: Vec<_> = uids.iter().map(|&uid| api::Victim { uid: uid.into(), pod: None }).collect();
    api::Candidate { placeholder: victims.is_empty(), victims, pdb_violations: 0 }
}

/// About three nodes on which "a" and "b", "b", or "c" would be evicted.
fn preempt_request(namespace: &str) -> api::PreemptRequest {
    api::PreemptRequest {
        call: Some(call()),
        pod: Some(pod(namespace)),
        nodes: Some(nodes(rows(&["n-1", "n-2", "n-3"]))),
        candidates: vec![candidate(&["a", "b"]), candidate(&["b"]), candidate(&["c"])],
    }
}

fn preempt(request: &api::PreemptRequest) -> Result<api::PreemptResponse, CallError> {
    at_once(
        "Preempt",
        super::preempt(&Evicting.into(), &Tables::default(), &decoded(request), Patience::None),
    )
    .unwrap()
}

#[test]
fn victims_are_named_by_position_and_spared_nodes_not_at_all() {
    let positions = |namespace| {
        let answer = preempt(&preempt_request(namespace)).unwrap();
        assert_eq!(evaluated(answer.result), 3);
        answer.kept.into_iter().map(|kept| (kept.position, kept.victims)).collect::<Vec<_>>()
    };
    assert_eq!(positions("shop"), [(0, vec![0, 1]), (1, vec![0]), (2, vec![0])]);
    assert_eq!(positions("without b"), [(0, vec![0]), (2, vec![0])]);
    assert_eq!(positions("nobody"), [(0, vec![]), (1, vec![]), (2, vec![])], "the failure policy decides");
}

#[test]
fn victims_of_its_own_are_named_by_uid() {
    let kept = preempt(&preempt_request("others")).unwrap().kept;
    let expected = api::KeptCandidate {
        position: 2,
        victims: vec![0],
        added_uids: vec!["x".to_owned()],
        pdb_violations: Some(2),
    };
    assert_eq!(kept[2], expected);
}

#[test]
fn a_placeholder_is_left_to_the_next_policy() {
    for namespace in ["shop", "without b", "nobody"] {
        let mut request = preempt_request(namespace);
        request.candidates[1] = candidate(&[]);
        let kept = preempt(&request).unwrap().kept;
        assert!(kept[1].position == 1 && kept[1].victims.is_empty(), "{namespace}: {kept:?}");
    }
}

#[test]
fn a_policy_that_has_lost_count_of_the_victims_fails_the_call() {
    for (namespace, expected) in [
        ("twice", "victims [0, 0] for position 0, which has 2"),
        ("beyond", "victims [2] for position 0, which has 2"),
    ] {
        let (code, text) = status(preempt(&preempt_request(namespace)).unwrap_err());
        assert_eq!(code, Code::Internal);
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_preempt_request_that_is_not_whole_is_refused() {
    type Change = fn(&mut api::PreemptRequest);
    let cases: [(Change, &str); 4] = [
        (|r| r.nodes = None, "nodes is missing"),
        (|r| drop(r.candidates.pop()), "nodes.count is 3 and there are 2 candidates"),
        (|r| r.candidates[1].victims.clear(), "candidates[1] has no victims"),
        (|r| r.pod = None, "pod is missing"),
    ];
    for (change, expected) in cases {
        let mut request = preempt_request("shop");
        change(&mut request);
        let (code, text) = status(preempt(&request).unwrap_err());
        assert_eq!(code, Code::InvalidArgument);
        assert!(text.contains(expected), "{text}");
    }
}
