//! Scripted extenders on real sockets: what is sent to them, and what becomes of their replies.

#![expect(
    clippy::needless_pass_by_value,
    reason = "json! makes values, which tests read better without references"
)]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use extender_policy_api::v1beta1::{self as api, Effects};
use extender_policy_sdk::{
    Backend, RejectionKind,
    testing::{self, NoAnswer, TestCandidate, TestNode, TestPod},
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    RootCertStore, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    net::TcpListener,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::*;

/// What the extender does with each request.
#[derive(Clone)]
enum Script {
    Reply(u16, String),
    /// Bytes, and then the end of the connection.
    Raw(&'static str),
    /// More bytes than are read.
    Endless,
    Silent,
}

#[derive(Debug)]
struct Seen {
    path: String,
    head: String,
    body: Value,
}

struct Extender {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    connections: Arc<AtomicUsize>,
}

impl Extender {
    async fn new(script: Script) -> Self {
        Self::with_tls(script, None).await
    }

    async fn replying(body: impl Into<String>) -> Self {
        Self::new(Script::Reply(200, body.into())).await
    }

    async fn with_tls(script: Script, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, connections) = (Arc::<Mutex<Vec<Seen>>>::default(), Arc::<AtomicUsize>::default());
        let (requests, accepted) = (Arc::clone(&seen), Arc::clone(&connections));
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                accepted.fetch_add(1, Ordering::Relaxed);
                let (script, requests, tls) = (script.clone(), Arc::clone(&requests), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, &script, &requests).await,
                        Some(tls) => {
                            let Ok(stream) = tls.accept(stream).await else { return };
                            serve(stream, &script, &requests).await;
                        }
                    }
                });
            }
        });
        Self { address, seen, connections }
    }

    fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    /// The policy in front of it, with these fields besides the URL.
    fn policy(&self, fields: Value) -> Backend {
        policy(&format!("http://{}/scheduler/", self.address), fields)
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, script: &Script, seen: &Mutex<Vec<Seen>>) {
    let mut stream = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if stream.read_line(&mut head).await.unwrap_or_default() == 0 {
                return;
            }
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        stream.read_exact(&mut body).await.unwrap();
        let path = head.split(' ').nth(1).unwrap().to_owned();
        seen.lock().unwrap().push(Seen { path, head, body: serde_json::from_slice(&body).unwrap() });
        match script {
            Script::Reply(status, text) => {
                let reply = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{text}", text.len());
                stream.write_all(reply.as_bytes()).await.unwrap();
            }
            Script::Raw(bytes) => {
                stream.write_all(bytes.as_bytes()).await.unwrap();
                stream.shutdown().await.unwrap();
                return;
            }
            Script::Endless => {
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                stream.write_all(head.as_bytes()).await.unwrap();
                while stream.write_all(&[b' '; 1 << 12]).await.is_ok() {}
                return;
            }
            Script::Silent => std::future::pending().await,
        }
    }
}

fn policy(url: &str, fields: Value) -> Backend {
    try_policy(url, fields).unwrap()
}

fn try_policy(url: &str, fields: Value) -> Result<Backend, NoAnswer> {
    let mut args = json!({"urlPrefix": url, "nodeCacheCapable": true});
    args.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let backend = Backend::configured(|args| HttpExtender::new("http-extender", &Allowed::default(), args));
    testing::with_args(backend, &args.to_string())
}

fn pod() -> TestPod {
    TestPod::new("shop").raw_json(r#"{"metadata":{"name":"web-0","uid":"u"}}"#)
}

fn nodes() -> [TestNode; 3] {
    ["a", "b", "c"].map(|name| {
        TestNode::new(name).raw_json(format!(r#"{{"metadata":{{"name":"{name}","labels":{{"x":"y"}}}}}}"#))
    })
}

fn object(name: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {"x": "y"}}})
}

fn web_0() -> Value {
    json!({"metadata": {"name": "web-0", "uid": "u"}})
}

fn candidates() -> [TestCandidate; 2] {
    let victim = |name: &str| TestPod::new("shop").raw_json(format!(r#"{{"metadata":{{"name":"{name}"}}}}"#));
    [
        TestCandidate::new(TestNode::new("b")).victim("u1", victim("v1")).victim("u2", victim("v2")),
        TestCandidate::new(TestNode::new("a")).victim("u3", victim("v3")).pdb_violations(1),
    ]
}

/// The answer is this, or says this.
fn same<T: PartialEq + std::fmt::Debug>(answer: Result<T, NoAnswer>, expected: Result<T, &str>, reply: &str) {
    match (answer, expected) {
        (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{reply}: {error}"),
        (answer, expected) => assert_eq!(answer.as_ref().ok(), expected.as_ref().ok(), "{reply}: {answer:?}"),
    }
}

/// Turns a hang into a failure of the test.
async fn soon<F: Future>(future: F) -> F::Output {
    timeout(Duration::from_mins(1), future).await.unwrap()
}

#[tokio::test]
async fn bodies_are_those_of_kube_scheduler() {
    let extender = Extender::replying("null").await;
    let verbs = json!({"filterVerb": "predicates/always_true", "prioritizeVerb": "priorities/zero_score",
        "preemptVerb": "preemption", "bindVerb": "bind"});
    let mut with_nodes = verbs.clone();
    with_nodes["nodeCacheCapable"] = json!(false);
    let names = json!(["a", "b", "c"]);
    let items = json!({"metadata": {}, "items": [object("a"), object("b"), object("c")]});
    let meta = json!({"a": {"Pods": [{"UID": "u3"}], "NumPDBViolations": 1},
        "b": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 0}});
    let pod_of = |name: &str| json!({"metadata": {"name": name}});
    let full = json!({"a": {"Pods": [pod_of("v3")], "NumPDBViolations": 1},
        "b": {"Pods": [pod_of("v1"), pod_of("v2")], "NumPDBViolations": 0}});
    for (fields, decide, preempt) in [
        (
            verbs,
            json!({"Pod": web_0(), "Nodes": null, "NodeNames": names}),
            json!({"Pod": web_0(), "NodeNameToVictims": null, "NodeNameToMetaVictims": meta}),
        ),
        (
            with_nodes,
            json!({"Pod": web_0(), "Nodes": items, "NodeNames": null}),
            json!({"Pod": web_0(), "NodeNameToVictims": full, "NodeNameToMetaVictims": null}),
        ),
    ] {
        let policy = extender.policy(fields);
        soon(testing::filter_later(policy.clone(), &pod(), &nodes())).await.unwrap();
        soon(testing::score_later(policy.clone(), &pod(), &nodes())).await.unwrap();
        soon(testing::preempt_later(policy.clone(), &pod(), &candidates())).await.unwrap();
        soon(testing::bind(policy, &pod(), "a")).await.unwrap();
        let bind = json!({"PodName": "pod", "PodNamespace": "shop", "PodUID": "uid", "Node": "a"});
        let expected = [
            ("/scheduler/predicates/always_true", decide.clone()),
            ("/scheduler/priorities/zero_score", decide),
            ("/scheduler/preemption", preempt),
            ("/scheduler/bind", bind),
        ];
        let seen = extender.seen();
        assert!(seen[0].head.contains("content-type: application/json"), "{}", seen[0].head);
        let seen: Vec<_> = seen.into_iter().map(|Seen { path, body, .. }| (path, body)).collect();
        assert_eq!(seen, expected.map(|(path, body)| (path.to_owned(), body)));
    }
    assert_eq!(extender.connections.load(Ordering::Relaxed), 2, "one for each policy");
}

#[tokio::test]
async fn only_verbs_of_the_entry_are_served() {
    let verbs = |fields: Value| {
        let verbs = testing::info(policy("http://127.0.0.1:1", fields)).unwrap().verbs.into_iter();
        let declared = verbs.map(|verb| {
            let reads = verb.reads.clone().unwrap();
            assert_eq!(reads.pod.unwrap().parts, [i32::from(api::PodPart::RawJson)]);
            (verb.verb, verb.scope, reads.node.unwrap().parts, verb.effects())
        });
        declared.collect::<Vec<_>>()
    };
    let (name, json) = (api::NodePart::Name.into(), api::NodePart::RawJson.into());
    let (whole, names, raw) = (2, || vec![name], || vec![name, json]);
    let (changes, reads) = (Effects::ChangesOutside, Effects::ReadsOutside);
    assert_eq!(verbs(json!({"filterVerb": "f", "prioritizeVerb": ""})), [(1, whole, names(), changes)]);
    assert_eq!(
        verbs(
            json!({"filterVerb": "f", "prioritizeVerb": "p", "preemptVerb": "e", "nodeCacheCapable": false})
        ),
        [(1, whole, raw(), changes), (2, whole, raw(), reads), (3, whole, names(), reads)]
    );
}

/// An extender is not asked in simulations about pods that do not exist, unless the operator says that it may be.
#[tokio::test]
async fn filter_has_side_effects_unless_args_say_otherwise() {
    let effects = |fields: Value| {
        let mut all = json!({"filterVerb": "f", "prioritizeVerb": "p", "preemptVerb": "e"});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let info = testing::info(policy("http://127.0.0.1:1", all)).unwrap();
        info.verbs.iter().map(|verb| verb.effects() == Effects::ChangesOutside).collect::<Vec<_>>()
    };
    assert_eq!(effects(json!({})), [true, false, false]);
    assert_eq!(effects(json!({"sideEffects": []})), [false, false, false]);
    assert_eq!(effects(json!({"sideEffects": ["prioritize", "preempt"]})), [false, true, true]);
    let wrong = try_policy("http://a", json!({"filterVerb": "f", "sideEffects": ["bind"]})).unwrap_err();
    let expected =
        "args.sideEffects[0]: unknown variant `bind`, expected one of `filter`, `prioritize`, `preempt`";
    assert!(wrong.to_string().contains(expected), "{wrong}");
}

#[tokio::test]
async fn filter_replies_decide_as_in_kube_scheduler() {
    const UNREADABLE: &str = "the extender's reply cannot be read: ";
    let left_out =
        |nodes: &[&'static str]| Ok(nodes.iter().map(|node| (*node, LEFT_OUT)).collect::<Vec<_>>());
    for (reply, expected) in [
        (r#"{"NodeNames":["a","b","c"]}"#, Ok(vec![])),
        (r#"{"NodeNames":["c","a","b","a"],"Error":""}"#, Ok(vec![])),
        (r#"{"NodeNames":["a"]}"#, left_out(&["b", "c"])),
        ("{}", left_out(&["a", "b", "c"])),
        ("null", left_out(&["a", "b", "c"])),
        (r#"{"Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":null}"#, left_out(&["b", "c"])),
        (r#"{"Nodes":{"items":[{"metadata":{"name":"a"}}]},"NodeNames":[]}"#, left_out(&["a", "b", "c"])),
        (
            r#"{"NodeNames":["a"],"FailedNodes":{"a":"kept anyway","b":"no GPU","ghost":"x"},
                "FailedAndUnresolvableNodes":{"c":"wrong rack"}}"#,
            Ok(vec![("b", "no GPU"), ("c", "wrong rack")]),
        ),
        (
            r#"{"NodeNames":["c"],"FailedNodes":{"a":"x","b":"y"},"FailedAndUnresolvableNodes":{"a":"z"}}"#,
            Ok(vec![("a", "z"), ("b", "y")]),
        ),
        (r#"{"NodeNames":["a"],"Error":"no"}"#, Err("no".to_owned())),
        (
            r#"{"NodeNames":["a","ghost"]}"#,
            Err("the extender kept node \"ghost\", which is not in the call".to_owned()),
        ),
        (
            r#"{"Nodes":{"items":[null]}}"#,
            Err("the extender kept node \"\", which is not in the call".to_owned()),
        ),
        (
            r#"{"NodeNames":["a"],"FailedNodes":{"b":1}}"#,
            Err(format!("{UNREADABLE}FailedNodes: invalid type: integer `1`, expected a string")),
        ),
    ] {
        let extender = Extender::replying(reply).await;
        let policy = extender.policy(json!({"filterVerb": "filter"}));
        let refused = soon(testing::filter_later(policy, &pod(), &nodes())).await;
        let expected = expected.map(|refused| {
            refused.into_iter().map(|(node, reason)| (node.to_owned(), reason.to_owned())).collect()
        });
        assert_eq!(refused.map_err(|error| error.to_string()), expected, "{reply}");
    }
}

#[tokio::test]
async fn with_full_nodes_names_do_not_count() {
    let refused = async |reply: &str| {
        let extender = Extender::replying(reply).await;
        let policy = extender.policy(json!({"filterVerb": "filter", "nodeCacheCapable": false}));
        soon(testing::filter_later(policy, &pod(), &nodes())).await.unwrap().len()
    };
    assert_eq!(refused(r#"{"NodeNames":["a","b","c"]}"#).await, 3);
    let items = json!([object("a"), object("c")]);
    assert_eq!(refused(&json!({"Nodes": {"items": items}, "NodeNames": ["b"]}).to_string()).await, 1);
}

#[test]
fn failed_nodes_may_be_helped_by_preemption_and_others_not() {
    let reply = br#"{"FailedNodes":{"a":"x","b":"x"},"FailedAndUnresolvableNodes":{"b":"x"}}"#;
    let verdicts = verdicts(FilterReply::read(reply).unwrap(), &["a", "b", "c"], true).unwrap();
    let kinds = verdicts.iter().map(|verdict| match verdict {
        Verdict::Reject(refusal) => refusal.kind,
        Verdict::Accept => panic!("none is kept"),
    });
    let expected = [RejectionKind::Unschedulable, RejectionKind::Unresolvable, RejectionKind::Unresolvable];
    assert_eq!(kinds.collect::<Vec<_>>(), expected);
}

#[tokio::test]
async fn scores_are_added_by_host() {
    for (reply, expected) in [
        ("null", Ok(vec![0, 0, 0])),
        ("[]", Ok(vec![0, 0, 0])),
        (
            r#"[{"Host":"c","Score":10},{"Host":"a","Score":3},{"Host":"a","Score":4},{"Host":"ghost","Score":9}]"#,
            Ok(vec![7, 0, 10]),
        ),
        (r#"[{"Host":"a","Score":-10},{"Host":"b","Score":1000000},null]"#, Ok(vec![-10, 1_000_000, 0])),
        (
            r#"[{"Host":"a","Score":9223372036854775807},{"Host":"b","Score":-9223372036854775808}]"#,
            Ok(vec![i32::MAX, i32::MIN + 1, 0]),
        ),
        (r#"{"Error":"no"}"#, Err("invalid type: map, expected a sequence")),
        (r#"[{"Host":"a","Score":5.0}]"#, Err("Score: 5.0 is not a whole number of 64 bits")),
    ] {
        let extender = Extender::replying(reply).await;
        let policy = extender.policy(json!({"prioritizeVerb": "prioritize"}));
        same(soon(testing::score_later(policy, &pod(), &nodes())).await, expected, reply);
    }
}

#[tokio::test]
async fn victims_are_those_that_the_extender_names() {
    let kept = |entries: &[(&str, &[&str])]| {
        let uids = |uids: &[&str]| uids.iter().map(|uid| (*uid).to_owned()).collect::<Vec<_>>();
        Ok(entries.iter().map(|(node, victims)| ((*node).to_owned(), uids(victims))).collect::<Vec<_>>())
    };
    for (reply, expected) in [
        (json!(null), kept(&[])),
        (json!({}), kept(&[])),
        (json!({"a": {"Pods": [{"UID": "u3"}]}}), kept(&[("a", &["u3"])])),
        (
            json!({"a": {"Pods": [{"UID": "u3"}, {"UID": "u3"}]}, "b": {"Pods": [{"UID": "u2"}, {"UID": "u1"}]}}),
            kept(&[("b", &["u1", "u2"]), ("a", &["u3"])]),
        ),
        (json!({"b": {"Pods": [{"UID": "u2"}], "NumPDBViolations": 7}}), kept(&[("b", &["u2"])])),
        (json!({"a": {"Pods": []}}), kept(&[("a", &[])])),
        (json!({"a": null}), Err("NodeNameToMetaVictims[\"a\"] is null")),
        // Whether it may add one is the gateway's decision, by `preempt.addedVictims`.
        (
            json!({"a": {"Pods": [{"UID": "u9"}, {"UID": "u3"}, {"UID": "u9"}]}}),
            kept(&[("a", &["u3", "u9"])]),
        ),
        (json!({"z": {"Pods": [{"UID": "u1"}]}}), Err("kept node \"z\", which is not in the call")),
    ] {
        let reply = json!({"NodeNameToMetaVictims": reply}).to_string();
        let extender = Extender::replying(reply.clone()).await;
        let policy = extender.policy(json!({"preemptVerb": "preempt"}));
        same(soon(testing::preempt_later(policy, &pod(), &candidates())).await, expected, &reply);
    }
}

#[tokio::test]
async fn an_object_that_the_gateway_does_not_have_is_no_call() {
    let extender = Extender::replying("null").await;
    let policy = extender.policy(json!({"preemptVerb": "preempt", "nodeCacheCapable": false}));
    let candidate = TestCandidate::new(TestNode::new("a")).unknown_victim("u9");
    let error = soon(testing::preempt_later(policy, &pod(), &[candidate])).await.unwrap_err().to_string();
    assert!(
        error.starts_with("victim \"u9\" on node \"a\": ") && error.contains("pods.source: Watch"),
        "{error}"
    );
    assert!(extender.seen().is_empty());
}

#[tokio::test]
async fn only_the_error_of_a_bind_says_that_the_pod_is_not_bound() {
    for (reply, expected) in [
        ("{}", Ok(Bind::Bound)),
        ("null", Ok(Bind::Bound)),
        (r#"{"code":5,"message":"failed"}"#, Ok(Bind::Bound)),
        (r#"{"error":"no"}"#, Ok(Bind::NotBound("no".to_owned()))),
        (r#"{"Error":"not here"}"#, Ok(Bind::NotBound("not here".to_owned()))),
        ("", Err("the extender's reply cannot be read: EOF")),
    ] {
        let extender = Extender::replying(reply).await;
        let policy = extender.policy(json!({"bindVerb": "bind"}));
        match (soon(testing::bind(policy, &pod(), "a")).await, expected) {
            (Ok(bound), Ok(expected)) => assert_eq!(bound, expected, "{reply}"),
            (Err(error), Err(part)) => {
                assert!(error.to_string().contains(part), "{reply}: {error}");
                assert!(error.is_about_this_pod(), "{reply}");
            }
            (bound, _) => panic!("{reply}: {bound:?}"),
        }
    }
}

#[tokio::test]
async fn a_failure_has_a_text_that_stays_the_same() {
    for (script, timeout, expected) in [
        (
            Script::Reply(400, "Waiting for PVC\r\n\tto be\u{0}bound\n".into()),
            "5s",
            "status 400; expected 200",
        ),
        (Script::Raw("HTTP/1.1 404 X\r\nContent-Length: 9\r\n\r\nno"), "5s", "status 404; expected 200"),
        (Script::Reply(503, "why".into()), "5s", "status 503; expected 200"),
        (Script::Reply(201, "{}".into()), "5s", "status 201; expected 200"),
        (Script::Reply(204, String::new()), "5s", "status 204; expected 200"),
        (Script::Reply(307, String::new()), "5s", "status 307; expected 200"),
        (Script::Raw(""), "5s", "connection closed before message completed"),
        (
            Script::Raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"),
            "5s",
            "end of file before message length reached",
        ),
        (Script::Raw("+OK\r\n\r\n"), "5s", "invalid HTTP version parsed"),
        (Script::Endless, "60s", "the reply is larger than 64 MiB and than twice the request"),
        (Script::Silent, "50ms", "no reply within 50ms (httpTimeout)"),
    ] {
        let extender = Extender::new(script).await;
        let policy = extender.policy(json!({"filterVerb": "filter", "httpTimeout": timeout}));
        let error = soon(testing::filter_later(policy, &pod(), &nodes())).await.unwrap_err();
        let is_a_reply = expected.starts_with("status") || expected.contains("the reply");
        assert_eq!(error.is_about_this_pod(), is_a_reply, "{error}");
        assert_eq!(
            error.to_string(),
            format!("POST http://{}/scheduler/filter: {expected}", extender.address)
        );
    }
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let gone = policy(&format!("http://{free}"), json!({"filterVerb": "filter"}));
    let error = soon(testing::filter_later(gone, &pod(), &nodes())).await.unwrap_err();
    assert_eq!(error.to_string(), format!("POST http://{free}/filter: connection refused"));
    assert!(!error.is_about_this_pod());
}

/// A CA, and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The PEM of a certificate and of its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let signed = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0);
        (signed.unwrap().pem(), key.serialize_pem())
    }

    fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.0.pem().as_bytes()).unwrap()).unwrap();
        roots
    }

    /// A server whose certificate has this name, for clients with a certificate of an authority.
    fn server(&self, name: &str, clients: Option<&Self>) -> TlsAcceptor {
        let (certificate, key) = self.sign(name);
        server(&certificate, &key, clients)
    }
}

fn server(certificate: &str, key: &str, clients: Option<&Authority>) -> TlsAcceptor {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let roots = Arc::new(clients.roots());
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.unwrap())
        }
    };
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    TlsAcceptor::from(Arc::new(builder.with_single_cert(chain, key).unwrap()))
}

/// Base64 of a text, as in `caData`.
fn data(text: &str) -> Value {
    serde_json::to_value(k8s_openapi::ByteString(text.into())).unwrap()
}

#[tokio::test]
async fn certificates_are_verified_as_the_entry_says() {
    let (authority, clients) = (Authority::new("authority"), Authority::new("clients"));
    let server = authority.server("extender.test", Some(&clients));
    let extender =
        Extender::with_tls(Script::Reply(200, r#"{"NodeNames":["a"]}"#.into()), Some(server)).await;
    let (certificate, key) = clients.sign("scheduler");
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let ca = authority.0.pem();
    let identity =
        json!({"certData": data(&certificate), "keyData": data(&key), "serverName": "extender.test"});
    let with = |fields: Value| {
        let mut all = identity.clone();
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        all
    };
    let files = json!({"certFile": file("tls.crt", &certificate), "keyFile": file("tls.key", &key),
        "caFile": file("ca.crt", &ca), "serverName": "extender.test"});
    let other = Authority::new("other").0.pem();
    for (enable_https, tls, failure) in [
        (true, with(json!({"caData": data(&ca)})), None),
        (false, with(json!({"caData": data(&ca)})), None),
        (true, files, None),
        (true, with(json!({})), None),
        (false, with(json!({"insecure": true})), None),
        (true, with(json!({"caData": data(&other)})), Some("UnknownIssuer")),
        (
            true,
            with(json!({"caData": data(&ca), "serverName": "other.test"})),
            Some("certificate not valid for name"),
        ),
        (true, json!({"caData": data(&ca), "serverName": "extender.test"}), Some("")),
    ] {
        let url = format!("https://{}", extender.address);
        let fields = json!({"filterVerb": "filter", "enableHTTPS": enable_https, "tlsConfig": tls});
        let refused = soon(testing::filter_later(policy(&url, fields), &pod(), &nodes())).await;
        match (refused, failure) {
            (Ok(refused), None) => assert_eq!(refused.len(), 2),
            (Err(error), Some(part)) => assert!(error.to_string().contains(part), "{tls}: {error}"),
            (refused, _) => panic!("{tls}: {refused:?}"),
        }
    }
}

/// As `openssl req -x509` makes it, and as Go accepts it: the certificate is the CA that is given.
#[tokio::test]
async fn a_certificate_that_signed_itself_is_its_own_ca() {
    let itself = |name: &str, is_over: bool| {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if is_over {
            params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
    };
    let reply = Script::Reply(200, r#"{"NodeNames":["a"]}"#.into());
    for (name, is_over, failure) in [
        ("extender.test", false, None),
        ("other.test", false, Some("certificate not valid for name")),
        ("extender.test", true, Some("certificate expired")),
    ] {
        let (certificate, key) = itself(name, is_over);
        let extender = Extender::with_tls(reply.clone(), Some(server(&certificate, &key, None))).await;
        let ask = async |ca: &str| {
            let tls = json!({"caData": data(ca), "serverName": "extender.test"});
            let policy = policy(
                &format!("https://{}", extender.address),
                json!({"filterVerb": "filter", "enableHTTPS": true, "tlsConfig": tls}),
            );
            soon(testing::filter_later(policy, &pod(), &nodes())).await.map_err(|error| error.to_string())
        };
        match failure {
            None => assert_eq!(ask(&certificate).await.unwrap().len(), 2),
            Some(part) => assert!(ask(&certificate).await.unwrap_err().contains(part), "{name}"),
        }
        ask(&itself("extender.test", false).0).await.unwrap_err();
    }
}

#[test]
fn a_tls_file_that_cannot_be_used_is_named() {
    let wrong = |tls: Value| {
        let fields = json!({"filterVerb": "filter", "tlsConfig": tls});
        try_policy("https://a", fields).unwrap_err().to_string()
    };
    let said = wrong(json!({"caFile": "/no/ca.crt"}));
    assert!(said.starts_with("args.tlsConfig.caFile: /no/ca.crt cannot be read: No such file"), "{said}");
    let said = wrong(json!({"caData": data("no PEM")}));
    assert!(said.starts_with("args.tlsConfig.caData: has no certificate; expected PEM"), "{said}");
    let (certificate, key) = Authority::new("a").sign("a");
    let (_, other) = Authority::new("b").sign("b");
    let said = wrong(json!({"insecure": true, "certData": data(&certificate), "keyData": data(&other)}));
    assert!(said.contains("keyData: does not match the certificate"), "{said}");
    let right = json!({"insecure": true, "certData": data(&certificate), "keyData": data(&key)});
    try_policy("https://a", json!({"filterVerb": "f", "tlsConfig": right})).unwrap();
}
