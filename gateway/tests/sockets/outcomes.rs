//! What backends are told about how attempts to place pods ended.

use std::{
    collections::VecDeque,
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    BindOutcome, BindRequest, FilterRequest, GetInfoResponse, Outcome, ReportRequest,
};
use prost::Message;
use serde_json::{Value, json};
use tokio::{net::TcpStream, sync::watch, time::sleep};

use crate::support::{
    Gateway,
    apiserver::{Apiserver, Turn},
    backend::{self, Act, Exactly, Scripted, configured, filtered},
    binding::{self, TO_A, says},
    eager, ended,
    function::{about, pure, sibling},
    http::Client,
    program::{OWN, Program, signal},
    reading, until,
};

const SERVICE: &str = "extender.policy.v1beta1.OutcomeService";

/// A backend that rejects node `full`, does not bind, and is told outcomes.
struct Observing {
    backend: Scripted,
    /// Its next answers; after them it acknowledges.
    answers: Arc<Mutex<VecDeque<Act>>>,
    /// Whether it closes each connection.
    is_away: Arc<AtomicBool>,
}

impl Observing {
    async fn start() -> Self {
        let bind = binding::info().verbs;
        let info = backend::info(reading::names());
        Self::declaring(GetInfoResponse { verbs: [info.verbs.clone(), bind].concat(), ..info }).await
    }

    async fn declaring(info: GetInfoResponse) -> Self {
        let revision = info.revision.clone();
        let info = GetInfoResponse { services: vec![SERVICE.to_owned()], ..info }.encode_to_vec();
        let (answers, is_away) = (Arc::<Mutex<VecDeque<Act>>>::default(), Arc::new(AtomicBool::new(false)));
        let (next, away) = (Arc::clone(&answers), Arc::clone(&is_away));
        let script = move |verb: &str, message: Bytes| match verb {
            "GetInfo" if away.load(Ordering::Relaxed) => Act::Drop,
            "GetInfo" => Act::Message(info.clone()),
            "Filter" => {
                let mut answer = filtered(&message, &["full"], "full");
                answer.result.as_mut().unwrap().revision.clone_from(&revision);
                Act::Message(answer.encode_to_vec())
            }
            "Bind" => says(BindOutcome::NotBound),
            _ => next.lock().unwrap().pop_front().unwrap_or_else(|| Act::Message(Vec::new())),
        };
        Self { backend: Scripted::start_bare(script, None).await, answers, is_away }
    }

    fn answers(&self, acts: impl IntoIterator<Item = Act>) {
        self.answers.lock().unwrap().extend(acts);
    }

    fn requests(&self) -> Vec<ReportRequest> {
        let messages = self.backend.messages("Report").into_iter();
        messages.map(|message| ReportRequest::decode(message).unwrap()).collect()
    }

    /// The outcomes so far, such as `u-1 Filter 0 BOUND a`: with the number of the call that they name.
    fn told(&self) -> Vec<String> {
        let calls = |verb: &'static str| {
            let messages = self.backend.messages(verb).into_iter().enumerate();
            messages.map(move |(number, message)| {
                let call = match verb {
                    "Bind" => BindRequest::decode(message).unwrap().call,
                    _ => FilterRequest::decode(message).unwrap().call,
                };
                (call.unwrap().id, format!("{verb} {number}"))
            })
        };
        let calls: Vec<_> = calls("Filter").chain(calls("Bind")).collect();
        let text = |outcome: Outcome| {
            let call = &calls.iter().find(|(id, _)| *id == outcome.call).unwrap().1;
            let kind = outcome.kind().as_str_name().trim_start_matches("OUTCOME_KIND_");
            format!("{} {call} {kind} {}", outcome.uid, outcome.node).trim_end().to_owned()
        };
        self.requests().into_iter().flat_map(|request| request.outcomes).map(text).collect()
    }

    /// Waits until it was told as much as this, and not something else.
    async fn until_told(&self, expected: &[&str]) {
        until("it is told outcomes", || self.told().len() >= expected.len()).await;
        assert_eq!(self.told(), expected);
    }
}

/// A gateway that watches pods, with these backends that filter.
async fn watching(backends: &[(&str, &Scripted, &str)]) -> Gateway {
    let backends = backends.iter().map(|(name, backend, rest)| configured(name, backend, rest));
    let backends = backends.collect::<String>();
    Gateway::start_paced(
        &format!("nodes: {{source: NamesOnly}}\npods: {{source: Watch}}\nbackends:\n{backends}"),
        eager(),
    )
    .await
}

/// A pod of this UID, as the watch brings it.
fn watched(uid: &str, node: Option<&str>) -> Value {
    json!({"metadata": {"name": uid, "namespace": "shop", "uid": uid}, "spec": {"nodeName": node}})
}

/// Whether kube-scheduler is answered without an error, about this pod and these nodes.
async fn filter(gateway: &Gateway, uid: &str, nodes: &[&str]) -> bool {
    gateway.post("/filter", about(&watched(uid, None), nodes)).await.json()["Error"] == ""
}

fn bring(gateway: &Gateway, uid: &str, node: Option<&str>) {
    gateway.pods.as_ref().unwrap().apply(watched(uid, node).to_string().as_bytes()).unwrap();
}

fn counted(gateway: &Gateway, metric: &str, backend: &str, count: u64) -> bool {
    let line = format!("extender_gateway_backend_{metric}_outcomes_total{{backend=\"{backend}\"}} {count}\n");
    gateway.metrics.text().contains(&line)
}

#[tokio::test]
async fn the_watch_shows_that_pods_are_bound_and_that_they_are_gone() {
    let observing = Observing::start().await;
    let gateway = watching(&[("only", &observing.backend, "filter: {}, args: {a: 1}")]).await;
    let pods = gateway.pods.as_ref().unwrap();
    for uid in ["u-1", "u-2", "unasked"] {
        bring(&gateway, uid, None);
    }
    assert!(filter(&gateway, "u-1", &["a", "full"]).await && filter(&gateway, "u-2", &["b"]).await);
    // Each change of the pod shows the node again.
    for uid in ["unasked", "u-1", "u-1"] {
        bring(&gateway, uid, Some("a"));
    }
    observing.until_told(&["u-1 Filter 0 BOUND a"]).await;
    let ReportRequest { call, outcomes } = observing.requests().remove(0);
    let (call, Outcome { namespace, name, .. }) = (call.unwrap(), &outcomes[0]);
    assert_eq!((&**namespace, &**name), ("shop", "u-1"));
    assert_eq!((call.purpose, &*call.gateway, &*call.backend), (1, "test", "only"));
    assert_eq!((call.args_sha256.len(), call.reads.len(), call.args.len()), (32, 0, 0));
    assert!(!call.id.is_empty() && call.id != outcomes[0].call);
    // One is deleted, and the other one while the watch was interrupted.
    pods.remove("u-1");
    pods.replace(pods.relist());
    let all = ["u-1 Filter 0 BOUND a", "u-1 Filter 0 DELETED", "u-2 Filter 1 DELETED"];
    observing.until_told(&all).await;
    gateway.until_counted("acknowledged", "_backend_reported_outcomes_total{backend=\"only\"} 3\n").await;
    assert!(counted(&gateway, "dropped", "only", 0));
}

#[tokio::test]
async fn an_attempt_that_leaves_no_node_or_fails_has_not_bound_the_pod() {
    let (observing, other) = (Observing::start().await, Scripted::refusing(&["b"], "b", 0).await);
    let gateway = watching(&[
        ("first", &observing.backend, "filter: {}"),
        ("other", &other, "filter: {}"),
        ("down", &Scripted::always(Act::Status(14, "")).await, "filter: {}, match: {namespaces: [else]}"),
    ])
    .await;
    assert!(filter(&gateway, "u-1", &["full"]).await);
    // What another backend rejects counts, too.
    assert!(filter(&gateway, "u-1", &["full", "b"]).await);
    let elsewhere = json!({"metadata": {"name": "u-2", "namespace": "else", "uid": "u-2"}});
    let answer = gateway.post("/filter", about(&elsewhere, &["a"])).await;
    assert!(answer.error().contains("backend down failed filter"), "{answer:?}");
    // The next one is not the end of the others.
    assert!(filter(&gateway, "u-1", &["a"]).await);
    let not_bound = ["u-1 Filter 0 NOT_BOUND", "u-1 Filter 1 NOT_BOUND", "u-2 Filter 2 NOT_BOUND"];
    observing.until_told(&not_bound).await;
}

#[tokio::test]
async fn another_attempt_supersedes_one_whose_end_is_not_known() {
    let observing = Observing::start().await;
    let gateway = watching(&[("only", &observing.backend, "filter: {}")]).await;
    assert!(filter(&gateway, "u-1", &["a"]).await && filter(&gateway, "u-1", &["b"]).await);
    bring(&gateway, "u-1", Some("b"));
    observing.until_told(&["u-1 Filter 0 SUPERSEDED", "u-1 Filter 1 BOUND b"]).await;
}

#[tokio::test]
async fn a_bind_by_the_gateway_is_reported_as_far_as_its_end_is_certain() {
    // What is told then, and after another attempt. One that is not certain is superseded by that.
    let cases: [(fn(&Apiserver), _, _); 7] = [
        (|_| {}, "BOUND a", "NOT_BOUND"),
        (|apiserver| apiserver.set("web-0", "u-1", Some("b")), "BOUND b", "NOT_BOUND"),
        (|apiserver| apiserver.delete("web-0"), "DELETED", "DELETED"),
        (|apiserver| apiserver.set("web-0", "u-9", None), "DELETED", "DELETED"),
        (|apiserver| apiserver.binds(&[Turn::Status(403)]), "NOT_BOUND", "NOT_BOUND"),
        (|apiserver| apiserver.binds(&[Turn::Hang]), "SUPERSEDED", "NOT_BOUND"),
        (|apiserver| apiserver.binds(&[Turn::DoAndHang]), "BOUND a", "NOT_BOUND"),
    ];
    for (number, (prepare, first, then)) in cases.into_iter().enumerate() {
        let (observing, apiserver) = (Observing::start().await, Apiserver::start().await.within("1s"));
        let backend = configured("only", &observing.backend, "filter: {}");
        let rest = format!("{}backends:\n{backend}", apiserver.configuration("BuiltIn"));
        let gateway = Gateway::start(&rest).await;
        let pod = json!({"metadata": {"name": "web-0", "namespace": "shop", "uid": "u-1"}});
        gateway.post("/filter", about(&pod, &["a"])).await;
        prepare(&apiserver);
        let answer = gateway.post("/bind", TO_A).await;
        assert_eq!(answer.error().is_empty(), first == "BOUND a", "{number} {answer:?}");
        gateway.post("/filter", about(&pod, &["full"])).await;
        let told = [format!("u-1 Filter 0 {first}"), format!("u-1 Filter 1 {then}")];
        observing.until_told(&told.each_ref().map(String::as_str)).await;
    }
}

#[tokio::test]
async fn a_backend_that_binds_is_told_with_the_id_of_its_bind() {
    let (observing, apiserver) = (Observing::start().await, Apiserver::start().await);
    let gateway = binding::with(&apiserver, &observing.backend, "{failurePolicy: Next}").await;
    binding::bound(&gateway.post("/bind", TO_A).await);
    observing.until_told(&["u-1 Bind 0 BOUND a"]).await;
    apiserver.set("web-0", "u-1", None);
    let gateway = binding::with(&apiserver, &observing.backend, "{}").await;
    assert!(gateway.post("/bind", TO_A).await.error().contains("so I say"));
    observing.until_told(&["u-1 Bind 0 BOUND a", "u-1 Bind 1 NOT_BOUND"]).await;
}

#[tokio::test]
async fn a_backend_that_was_away_is_told_everything_in_order() {
    let observing = Observing::start().await;
    let gateway = watching(&[("only", &observing.backend, "filter: {}")]).await;
    let pods = ["u-1", "u-2", "u-3"];
    for uid in pods {
        bring(&gateway, uid, None);
        assert!(filter(&gateway, uid, &["a"]).await);
    }
    observing.is_away.store(true, Ordering::Relaxed);
    let served = gateway.door.served.load_full();
    until("it is away", || served.decider.sessions().all(|(_, session)| session.is_err())).await;
    for uid in pods {
        bring(&gateway, uid, Some("a"));
    }
    gateway.pods.as_ref().unwrap().remove("u-2");
    assert!(!filter(&gateway, "u-4", &["a"]).await, "it is not asked");
    observing.is_away.store(false, Ordering::Relaxed);
    let bound = ["u-1 Filter 0 BOUND a", "u-2 Filter 1 BOUND a", "u-3 Filter 2 BOUND a"];
    observing.until_told(&[&bound[..], &["u-2 Filter 1 DELETED"]].concat()).await;
    gateway.until_counted("acknowledged", "_backend_reported_outcomes_total{backend=\"only\"} 4\n").await;
    assert_eq!(observing.requests().len(), 1, "they are one request");
}

/// An answer with a status and a reason.
fn args_unknown() -> Act {
    let head = vec![
        ("content-type", b"application/grpc".to_vec()),
        ("grpc-status", b"9".to_vec()),
        ("extender-reason", b"ERROR_REASON_ARGS_UNKNOWN".to_vec()),
    ];
    Act::Exactly(Exactly { status: 200, head, body: None, trailers: Vec::new() })
}

#[tokio::test]
async fn outcomes_are_sent_again_until_they_are_acknowledged() {
    let observing = Observing::start().await;
    let gateway = watching(&[("only", &observing.backend, "filter: {}, args: {a: 1}")]).await;
    let wrong = [
        Act::Status(9, "not about args"),
        Act::Framed(vec![0, 0, 0, 0, 1, 0xff]),
        Act::Message(vec![0; 5 << 10]),
        Act::Torn(vec![0]),
        Act::Http(500),
        Act::Drop,
    ];
    let count = wrong.len();
    observing.answers(wrong);
    observing.answers([args_unknown()]);
    assert!(filter(&gateway, "u-1", &["full"]).await);
    gateway.until_counted("acknowledged", "_backend_reported_outcomes_total{backend=\"only\"} 1\n").await;
    observing.until_told(&vec!["u-1 Filter 0 NOT_BOUND"; count + 2]).await;
    let args: Vec<_> = observing.requests().into_iter().map(|request| request.call.unwrap().args).collect();
    assert!(args[..=count].iter().all(Bytes::is_empty));
    assert_eq!(args[count + 1], br#"{"a":1}"#[..]);
}

#[tokio::test]
async fn refused_outcomes_are_dropped_and_other_backends_are_told() {
    let (refusing, other) = (Observing::start().await, Observing::start().await);
    let gateway =
        watching(&[("refusing", &refusing.backend, "filter: {}"), ("other", &other.backend, "filter: {}")])
            .await;
    refusing.answers([Act::Status(3, "outcomes[0].uid: no such pod")]);
    assert!(filter(&gateway, "u-1", &["full"]).await);
    let first = "u-1 Filter 0 NOT_BOUND";
    refusing.until_told(&[first]).await;
    other.until_told(&[first]).await;
    until("they are dropped", || counted(&gateway, "dropped", "refusing", 1)).await;
    assert!(filter(&gateway, "u-2", &["full"]).await);
    refusing.until_told(&[first, "u-2 Filter 1 NOT_BOUND"]).await;
    assert!(counted(&gateway, "dropped", "other", 0));
}

#[tokio::test]
async fn a_service_that_is_not_implemented_is_called_again_on_the_next_connection() {
    let (observing, other) = (Observing::start().await, Observing::start().await);
    let gateway =
        watching(&[("only", &observing.backend, "filter: {}"), ("other", &other.backend, "filter: {}")])
            .await;
    observing.answers([Act::Status(12, "")]);
    assert!(filter(&gateway, "u-1", &["full"]).await);
    until("they are dropped", || counted(&gateway, "dropped", "only", 1)).await;
    // Nothing is tracked: the other backend is told this.
    assert!(filter(&gateway, "u-2", &["full"]).await);
    other.until_told(&["u-1 Filter 0 NOT_BOUND", "u-2 Filter 1 NOT_BOUND"]).await;
    observing.is_away.store(true, Ordering::Relaxed);
    let is_away = || gateway.door.served.load_full().decider.sessions().any(|(_, session)| session.is_err());
    until("it is away", is_away).await;
    observing.is_away.store(false, Ordering::Relaxed);
    until("it is back", || !is_away()).await;
    assert!(filter(&gateway, "u-3", &["full"]).await);
    observing.until_told(&["u-1 Filter 0 NOT_BOUND", "u-3 Filter 2 NOT_BOUND"]).await;
}

#[tokio::test]
async fn backends_without_the_service_or_without_a_decision_are_told_nothing() {
    let names = || pure(reading::names());
    let (observing, cached) = (Observing::start().await, Observing::declaring(names()).await);
    let shadow = Observing::declaring(backend::info(reading::names())).await;
    let plain = Scripted::refusing(&[], "", 0).await;
    let gateway = watching(&[
        ("only", &observing.backend, "filter: {}"),
        ("cached", &cached.backend, "filter: {}"),
        ("shadow", &shadow.backend, "filter: {}, mode: Shadow"),
        ("plain", &plain, "filter: {}"),
    ])
    .await;
    for number in [1, 2] {
        let answer = gateway.post("/filter", about(&sibling(number), &["a"])).await;
        assert_eq!(answer.error(), "");
        let asked = || shadow.backend.messages("Filter").len() == number as usize;
        until("the shadow is asked", asked).await;
        let mut pod = sibling(number);
        pod["spec"]["nodeName"] = "a".into();
        gateway.pods.as_ref().unwrap().apply(pod.to_string().as_bytes()).unwrap();
    }
    observing.until_told(&["u-1 Filter 0 BOUND a", "u-2 Filter 1 BOUND a"]).await;
    // The second pod was answered from the cache.
    cached.until_told(&["u-1 Filter 0 BOUND a"]).await;
    assert_eq!(cached.backend.messages("Filter").len(), 1);
    let reports = |backend: &Scripted| backend.messages("Report").len();
    assert_eq!((reports(&shadow.backend), reports(&plain)), (0, 0));
}

#[tokio::test]
async fn outcomes_outlive_settings_and_are_told_before_the_gateway_stops() {
    let test = async {
        let (go, held) = watch::channel(false);
        let slow = Scripted::start(backend::info(reading::names()), move |_, message| {
            let answer = Act::Message(filtered(&message, &["a"], "a").encode_to_vec());
            Act::Later(held.clone(), Box::new(answer))
        });
        let (observing, slow) = (Observing::start().await, slow.await);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let configure = |rest: &str| {
            let backends = configured("only", &observing.backend, &format!("filter: {{timeout: 60s}}{rest}"))
                + &configured("slow", &slow, "filter: {timeout: 60s}, match: {namespaces: [else]}");
            let text = format!("{OWN}timeouts: {{decision: 60s}}\nnodes: {{source: NamesOnly}}\n");
            fs::write(&file, format!("{text}backends:\n{backends}")).unwrap();
        };
        configure("");
        let mut program = Program::start(&file).await;
        program.wrote("pods are not watched, so the backend is not told", 1).await;
        observing.answers(vec![Act::Status(14, "later"); 100]);
        Client::connect(program.extender)
            .await
            .post("/filter", about(&watched("u-1", None), &["full"]).as_bytes())
            .await;
        until("it is told", || !observing.requests().is_empty()).await;
        configure(", args: {a: 1}");
        program.counted("extender_gateway_configuration_reloads_total{outcome=\"ok\"} 1").await;
        let before = observing.requests().len();
        until("it is told again", || observing.requests().len() > before).await;
        assert_eq!(observing.requests().pop().unwrap().call.unwrap().args_sha256.len(), 32);
        observing.answers.lock().unwrap().clear();
        program.counted("extender_gateway_backend_reported_outcomes_total{backend=\"only\"} 1").await;
        // The last call ends when nothing else keeps the gateway.
        let pod = json!({"metadata": {"name": "u-2", "namespace": "else", "uid": "u-2"}});
        let mut client = Client::connect(program.extender).await;
        let call = tokio::spawn(async move { client.post("/filter", about(&pod, &["a"]).as_bytes()).await });
        until("the slow one is asked", || !slow.messages("Filter").is_empty()).await;
        signal(&program.child, "TERM").await;
        while TcpStream::connect(program.extender).await.is_ok() {
            sleep(Duration::from_millis(20)).await;
        }
        go.send(true).unwrap();
        assert_eq!(call.await.unwrap().error(), "");
        assert!(program.child.wait().await.unwrap().success());
        assert_eq!(observing.told().pop().unwrap(), "u-2 Filter 1 NOT_BOUND");
    };
    ended("the program does what it is told", test).await;
}
