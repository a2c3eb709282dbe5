//! The program, whose configuration changes while it serves.

use std::{
    convert::Infallible,
    fs,
    io::ErrorKind,
    net::{SocketAddr, TcpListener},
    os::unix::fs::symlink,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use crate::{
    hooks::{agrees, hooks},
    support::{
        TEST_TIMEOUT,
        backend::{Act, Scripted, filtered, info},
        by_name,
        http::Client,
        in_full, preempting,
        program::{OWN, Program, Starting, signal},
        reading,
    },
};
use axum::{Router, body::Body, http::Uri, response::Response};
use bytes::Bytes;
use extender_policy_api::v1beta1::{GetInfoRequest, NodePart, Verb};
use futures_util::stream;
use prost::Message;
use tokio::time::timeout;

fn configuration(backend: &Scripted) -> String {
    let only = format!("name: only, url: 'http://{}', filter: {{timeout: 60s}}", backend.address);
    configured("nodes: {source: NamesOnly}", &[&only])
}

/// A configuration with this source of nodes and these backends.
fn configured(nodes: &str, backends: &[&str]) -> String {
    let backends: Vec<String> = backends.iter().map(|settings| format!("- {{{settings}}}")).collect();
    let backends = backends.join("\n");
    format!(
        "{OWN}{nodes}\n\
         timeouts: {{decision: 60s}}\nreasons: {{prefix: None}}\nbackends:\n{backends}\n"
    )
}

fn reloaded(outcome: &str, count: u32) -> String {
    format!("extender_gateway_configuration_reloads_total{{outcome=\"{outcome}\"}} {count}")
}

/// The reason for which node `a` is refused.
async fn reason(client: &mut Client) -> String {
    let answer = client.post("/filter", by_name(&["a", "b"]).as_bytes()).await.json();
    assert_eq!(answer["Error"], "", "{answer}");
    answer["FailedAndUnresolvableNodes"]["a"].as_str().unwrap().to_owned()
}

async fn until(client: &mut Client, wanted: &str) {
    while reason(client).await != wanted {}
}

/// Writes the text as a kubelet does: in its own folder, behind a symlink that is swapped.
fn swap(folder: &Path, version: &str, text: &str) {
    fs::create_dir(folder.join(version)).unwrap();
    fs::write(folder.join(version).join("gateway.yaml"), text).unwrap();
    symlink(version, folder.join("..data_tmp")).unwrap();
    fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
}

#[tokio::test]
async fn a_changed_file_is_used_without_losing_a_call() {
    let test = async {
        let first = Scripted::refusing(&["a"], "first", 0).await;
        let second = Scripted::refusing(&["a"], "second", 0).await;
        let third = Scripted::refusing(&["a"], "third", 0).await;
        let folder = tempfile::tempdir().unwrap();
        swap(folder.path(), "..1", &configuration(&first));
        let file = folder.path().join("gateway.yaml");
        symlink("..data/gateway.yaml", &file).unwrap();
        let program = Program::start(&file).await;

        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, extender) = (Arc::clone(&stop), program.extender);
        let load = tokio::spawn(async move {
            let mut client = Client::connect(extender).await;
            let mut calls = 0;
            while !stopped.load(Ordering::Relaxed) {
                reason(&mut client).await;
                calls += 1;
            }
            calls
        });
        let mut client = Client::connect(program.extender).await;
        assert_eq!(reason(&mut client).await, "first");
        swap(folder.path(), "..2", &configuration(&second));
        until(&mut client, "second").await;
        fs::remove_file(&file).unwrap();
        fs::write(&file, configuration(&third)).unwrap();
        program.signal("HUP").await;
        until(&mut client, "third").await;
        stop.store(true, Ordering::Relaxed);
        assert!(load.await.unwrap() > 0);
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_file_with_mistakes_changes_nothing_and_is_counted() {
    let test = async {
        let backend = Scripted::refusing(&["a"], "first", 0).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let right = configuration(&backend);
        fs::write(&file, &right).unwrap();
        let program = Program::start(&file).await;
        fs::write(&file, right.replace("filter", "fliter")).unwrap();
        program.counted(&reloaded("refused", 1)).await;
        program.signal("HUP").await;
        program.counted(&reloaded("refused", 2)).await;
        fs::write(&file, right.replace("NamesOnly", "Request")).unwrap();
        program.counted(&reloaded("refused", 3)).await;
        assert_eq!(reason(&mut Client::connect(program.extender).await).await, "first");
        fs::write(&file, right.replace("prefix: None", "prefix: Backend")).unwrap();
        until(&mut Client::connect(program.extender).await, "only: first").await;
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

/// A backend that accepts only these args, and refuses node `a`.
async fn particular(right: &'static str) -> Scripted {
    let script = move |verb: &str, message: Bytes| match verb {
        "GetInfo" if GetInfoRequest::decode(message.clone()).unwrap().args != right.as_bytes() => {
            Act::Status(3, "args.rack: no such rack")
        }
        "GetInfo" => Act::Message(info(reading::names()).encode_to_vec()),
        _ => Act::Message(filtered(&message, &["a"], "no").encode_to_vec()),
    };
    Scripted::start_bare(script, None).await
}

#[tokio::test]
async fn settings_that_a_backend_refuses_are_not_used() {
    let test = async {
        let backend = particular(r#"{"rack":"r1"}"#).await;
        let with = |name: &str, rack: &str| {
            format!(
                "name: {name}, url: 'http://{}', filter: {{timeout: 60s}}, args: {{rack: {rack}}}",
                backend.address
            )
        };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let write = |backends: &[&str]| {
            fs::write(&file, configured("nodes: {source: NamesOnly}", backends)).unwrap();
        };
        let right = with("only", "r1");
        write(&[&right]);
        let program = Program::start(&file).await;
        let mut client = Client::connect(program.extender).await;
        for (count, backends) in [(1, vec![with("only", "r9")]), (2, vec![right.clone(), with("new", "r9")])]
        {
            write(&backends.iter().map(String::as_str).collect::<Vec<_>>());
            program.signal("HUP").await;
            program.counted(&reloaded("refused", count)).await;
            assert_eq!(reason(&mut client).await, "no");
        }
        let said = "configuration change rejected, the previous one stays in use: backend only rejected its new settings: \
                    handshake failed: INVALID_ARGUMENT: args.rack: no such rack";
        program.wrote(said, 1).await;
        assert_eq!(program.said(said).len(), 1);
        let status = Client::connect(program.admin).await.send("GET", "/debug/status", b"").await.json();
        assert_eq!(status["configuration"]["refused"]["because"], "backend", "{status}");
        assert_eq!(program.said("is down"), [""; 0], "the connection in use is not touched");
        write(&[&right, &with("new", "r1")]);
        program.counted(&reloaded("ok", 1)).await;
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_backend_that_refuses_what_it_has_holds_up_no_other_change() {
    let test = async {
        let backend = particular("{}").await;
        let wrong = format!("name: only, url: 'http://{}', filter: {{}}, args: {{a: 1}}", backend.address);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, configured("nodes: {source: NamesOnly}", &[&wrong])).unwrap();
        let program = Program::start(&file).await;
        program.wrote("backend is down: handshake failed", 1).await;
        assert_eq!(program.said("backend is down: handshake failed").len(), 1);
        let away = "name: away, url: 'http://127.0.0.1:1', score: {}";
        fs::write(&file, configured("nodes: {source: NamesOnly}", &[&wrong, away])).unwrap();
        program.counted(&reloaded("ok", 1)).await;
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_hangup_has_an_answer_when_nothing_has_changed() {
    let test = async {
        let backend = Scripted::refusing(&["a"], "first", 0).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, configuration(&backend)).unwrap();
        let program = Program::start(&file).await;
        for (count, remark) in [(1, ""), (2, "# a remark\n")] {
            fs::write(&file, configuration(&backend) + remark).unwrap();
            program.signal("HUP").await;
            program.wrote("configuration unchanged", count).await;
        }
        assert!(program.said("configuration unchanged")[0].contains("INFO"));
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_hangup_during_the_start_is_no_end() {
    let test = async {
        // Accepts and sends nothing, which delays the start.
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("name: silent, url: 'http://{}', filter: {{}}", silent.local_addr().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, configured("nodes: {source: NamesOnly}", &[&url])).unwrap();
        let starting = Starting::new(&file).await;
        signal(&starting.child, "HUP").await;
        starting.serving().await;
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_disabled_backend_is_left_alone() {
    let test = async {
        let policy = Scripted::refusing(&["a"], "no", 0).await;
        let away = TcpListener::bind("127.0.0.1:0").unwrap();
        away.set_nonblocking(true).unwrap();
        let policy = format!("name: policy, url: 'http://{}', filter: {{timeout: 60s}}", policy.address);
        let away_url = format!("name: away, url: 'http://{}', score: {{}}", away.local_addr().unwrap());
        let disabled = format!("{away_url}, mode: Disabled");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let nodes = "nodes: {source: NamesOnly}";
        fs::write(&file, configured(nodes, &[&policy, &disabled])).unwrap();
        // Every enforced backend was tried when the program serves.
        let program = Program::start(&file).await;
        assert_eq!(away.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(reason(&mut Client::connect(program.extender).await).await, "no");
        fs::write(&file, configured(nodes, &[&policy, &away_url])).unwrap();
        program.signal("HUP").await;
        program.counted(&reloaded("ok", 1)).await;
        away.accept().unwrap();
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

/// An apiserver without nodes and pods. Returns its address, and its list requests.
async fn empty_cluster() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let lists = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&lists);
    let answer = async move |uri: Uri| {
        if uri.query().unwrap_or_default().contains("watch=true") {
            return Response::new(Body::from_stream(stream::pending::<Result<Bytes, Infallible>>()));
        }
        seen.lock().unwrap().push(uri.path().to_owned());
        Response::new(Body::from(r#"{"metadata":{"resourceVersion":"1"},"items":[]}"#))
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
    (address, lists)
}

#[tokio::test]
async fn the_first_and_the_last_preempt_block_need_no_restart() {
    let test = async {
        let (apiserver, lists) = empty_cluster().await;
        let kubeconfig = crate::support::apiserver::kubeconfig(apiserver);
        let nodes =
            format!("nodes: {{source: Watch}}\ncluster: {{kubeconfig: {}}}", kubeconfig.path().display());
        let mut serves = info(reading::names());
        serves.verbs.extend(preempting::info(reading::names()).verbs);
        let policy = Scripted::start(serves, |_, _| panic!("nothing is asked")).await;
        let filters = format!("name: only, url: 'http://{}', filter: {{}}", policy.address);
        let preempts = format!("{filters}, preempt: {{}}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, configured(&nodes, &[&filters])).unwrap();
        let program = Program::start(&file).await;
        assert_eq!(*lists.lock().unwrap(), ["/api/v1/nodes"], "nothing needs pods");
        for (count, backend) in [(1, &preempts), (2, &filters), (3, &preempts)] {
            fs::write(&file, configured(&nodes, &[backend])).unwrap();
            program.signal("HUP").await;
            program.counted(&reloaded("ok", count)).await;
        }
        assert_eq!(*lists.lock().unwrap(), ["/api/v1/nodes", "/api/v1/pods"], "one watch for all");
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_verb_that_a_backend_does_not_serve_changes_nothing() {
    let test = async {
        let mut serves = info(reading::names());
        serves.verbs.truncate(1);
        let policy = Scripted::start(serves, |_, _| panic!("nothing is asked")).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let nodes = "nodes: {source: NamesOnly}";
        let filters = format!("name: only, url: 'http://{}', filter: {{}}", policy.address);
        fs::write(&file, configured(nodes, &[&filters])).unwrap();
        let program = Program::start(&file).await;
        fs::write(&file, configured(nodes, &[&format!("{filters}, score: {{}}")])).unwrap();
        program.counted(&reloaded("refused", 1)).await;
        let status = Client::connect(program.admin).await.send("GET", "/debug/status", b"").await.json();
        assert_eq!(status["configuration"]["refused"]["because"], "backend", "{status}");
        fs::write(&file, configured(nodes, &[&filters])).unwrap();
        program.wrote("configuration unchanged; the rejected change was undone", 1).await;
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn pods_stay_watched_while_an_unchanged_backend_needs_them() {
    let test = async {
        let (apiserver, _) = empty_cluster().await;
        let kubeconfig = crate::support::apiserver::kubeconfig(apiserver);
        let nodes =
            format!("nodes: {{source: Watch}}\ncluster: {{kubeconfig: {}}}", kubeconfig.path().display());
        let serves = info(reading::with_part(reading::facts(), NodePart::Usage));
        let policy = Scripted::start(serves, |_, _| panic!("nothing is asked")).await;
        let filters = format!("name: only, url: 'http://{}', filter: {{}}", policy.address);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        fs::write(&file, configured(&format!("{nodes}\npods: {{source: Watch}}"), &[&filters])).unwrap();
        let program = Program::start(&file).await;
        fs::write(&file, configured(&nodes, &[&filters])).unwrap();
        program.wrote("needs usage, but pods are not watched; set pods.source: Watch", 1).await;
        program.counted(&reloaded("refused", 1)).await;
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn pods_that_cannot_be_watched_change_nothing() {
    let test = async {
        let policy = Scripted::refusing(&["a"], "no", 0).await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let only = format!("name: only, url: 'http://{}', filter: {{timeout: 60s}}", policy.address);
        let nodes = "nodes: {source: NamesOnly}\ncluster: {kubeconfig: not-there}";
        fs::write(&file, configured(nodes, &[&only])).unwrap();
        let program = Program::start(&file).await;
        fs::write(&file, configured(&format!("{nodes}\npods: {{source: Watch}}"), &[&only])).unwrap();
        program.counted(&reloaded("refused", 1)).await;
        assert_eq!(reason(&mut Client::connect(program.extender).await).await, "no");
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}

#[tokio::test]
async fn a_hook_that_is_added_runs_and_one_that_is_removed_does_not() {
    let test = async {
        let backend =
            Scripted::start(hooks(&[Verb::BeforeFilter]), |verb, message| agrees(verb, &message)).await;
        let only = format!("name: only, url: 'http://{}', filter: {{}}", backend.address);
        let hooked = format!("{only}, beforeFilter: {{}}");
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("gateway.yaml");
        let text = |backend: &str| configured("nodes: {source: Request}", &[backend]);
        fs::write(&file, text(&only)).unwrap();
        let program = Program::start(&file).await;
        for (count, settings, calls) in [(1, &hooked, 1), (2, &only, 1)] {
            fs::write(&file, text(settings)).unwrap();
            program.signal("HUP").await;
            program.counted(&reloaded("ok", count)).await;
            let mut client = Client::connect(program.extender).await;
            let answer = client.post("/filter", in_full(&["a"]).as_bytes()).await.json();
            assert_eq!(answer["Error"], "", "{answer}");
            assert_eq!(backend.messages("BeforeFilter").len(), calls);
        }
    };
    timeout(TEST_TIMEOUT, test).await.unwrap();
}
