//! `try`: decisions about files, by scripted backends.

use std::{
    fs,
    net::TcpListener,
    path::Path,
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    time::Instant,
};

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    self as api, FilterRequest, GetInfoResponse, NodePart, Purpose, ScoreRequest, Verb, nodes::Form,
};
use prost::Message;
use serde_json::Value;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::Command,
};

use crate::{
    hooks::{agrees, hooks},
    support::{
        backend::{Act, Scripted, configured, filtered, info, result, rows, scored},
        program::signal,
        reading,
        sdk::{self, Running},
    },
};

const NODES: &str = "kind: Node\nmetadata: {name: b}\n---\nkind: Node\nmetadata: {name: a}\n---\n\
                     kind: Node\nmetadata: {name: c, labels: {refused: unusable}}\n";

const DEPLOYMENT: &str = "kind: Service\nmetadata: {name: web}\n---\nkind: Deployment\n\
                          metadata: {name: web, namespace: shop}\n\
                          spec: {template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a}]}}}\n";

/// A folder with nodes and a Deployment.
struct Files(TempDir);

/// The exit code, standard output and standard error.
type Ended = (Option<i32>, String, String);

impl Files {
    fn new() -> Self {
        let files = Self(tempfile::tempdir().unwrap());
        files.write("nodes.yaml", NODES);
        files.write("pod.yaml", DEPLOYMENT);
        files
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path().join(name), text).unwrap();
    }

    fn configure(&self, backends: &str) {
        let head = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n";
        let other = "extender: {allowUnauthenticatedBind: true}\nnodes: {source: NamesOnly}\nbinder: BuiltIn\nrequeue: PodCondition\ntimeouts: {decision: 60s}\n";
        self.write("gateway.yaml", &format!("{head}{other}backends:\n{backends}"));
    }

    /// The objects that were written.
    fn written(&self) -> FilterRequest {
        FilterRequest::decode(&*fs::read(self.path().join("o.binpb")).unwrap()).unwrap()
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_extender-gateway"));
        command.arg("try").args(arguments.split_whitespace()).current_dir(self.path());
        command.stdin(Stdio::null()).env_remove("KUBECONFIG").kill_on_drop(true);
        command
    }

    async fn tried(&self, arguments: &str) -> Ended {
        let output = self.command(arguments).output().await.unwrap();
        let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, said)
    }

    /// The decision about the Deployment, as JSON.
    async fn decided(&self, arguments: &str) -> Value {
        let (code, out, said) =
            self.tried(&format!("--nodes nodes.yaml --pod pod.yaml -o json {arguments}")).await;
        assert_eq!((code, said.as_str()), (Some(0), ""));
        serde_json::from_str(&out).unwrap()
    }
}

/// Refuses `a`, and scores `b` with 7 and the others with 3.
async fn scripted(info: GetInfoResponse) -> Scripted {
    Scripted::start(info, |verb, message| match verb {
        "Filter" => Act::Message(filtered(&message, &["a"], "rack is being drained").encode_to_vec()),
        _ => Act::Message(scored(&message, |name| if name == "b" { 7 } else { 3 }).encode_to_vec()),
    })
    .await
}

#[tokio::test]
async fn a_decision_is_printed_as_explain_does_and_says_that_it_is_simulated() {
    let (files, backend) = (Files::new(), scripted(info(reading::facts())).await);
    let (code, out, said) =
        files.tried(&format!("--nodes nodes.yaml --pod pod.yaml --backend http://{}", backend.address)).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    for expected in [
        "Pod shop/web-xxxxxxxxxx-xxxxx from pod.yaml, tried without a cluster.\n",
        "Result: 3 of 3 nodes were offered, 2 left, 1 rejected; b has the highest total, 7.\n",
        "- kube-scheduler's own filters and scores are not part of this: ",
        "\n  NODE  TOTAL  scripted\n  b         7  7 → 7 × 1\n  c         3  3 → 3 × 1\n",
        "\nREJECTED  BY        WHY\na         scripted  rack is being drained\n",
    ] {
        assert!(out.contains(expected), "{expected}\n{out}");
    }
    let filter = FilterRequest::decode(backend.messages("Filter")[0].clone()).unwrap();
    let score = ScoreRequest::decode(backend.messages("Score")[0].clone()).unwrap();
    assert_eq!([filter.call, score.call].map(|call| call.unwrap().purpose()), [Purpose::Simulate; 2]);
    assert_eq!(backend.asked("Filter"), [["b", "a", "c"]], "in the file's order");
    assert_eq!(backend.asked("Score"), [["b", "c"]]);
    let facts = filter.pod.unwrap().facts.unwrap();
    let owner = facts.owner.unwrap();
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("ReplicaSet", "web-xxxxxxxxxx"));
    assert_eq!(facts.labels.unwrap().entries["app"], "web");
}

#[tokio::test]
async fn of_a_configuration_the_backends_are_used_and_the_cluster_is_not() {
    let files = Files::new();
    let (first, second) = (scripted(info(reading::facts())).await, Scripted::refusing(&["c"], "no", 4).await);
    let matching = "match: {namespaces: [other]}, filter: {}";
    files.configure(
        &[
            configured("first", &first, "filter: {timeout: 60s}, score: {weight: 2, timeout: 60s}"),
            configured("other", &second, matching),
            configured("shadow", &second, "mode: Shadow, filter: {timeout: 60s}"),
            configured("binder", &second, "bind: {}"),
        ]
        .concat(),
    );
    let list =
        files.decided(&format!("--config gateway.yaml --backend added=http://{}", second.address)).await;
    assert_eq!((&list["kind"], &list["items"][0]["verb"]), (&"DecisionList".into(), &"prioritize".into()));
    let [scored, filtered] = [0, 1].map(|at| &list["items"][at]);
    let names = |call: &Value| -> Vec<String> {
        call["backends"]
            .as_array()
            .unwrap()
            .iter()
            .map(|part| part["name"].as_str().unwrap().into())
            .collect()
    };
    assert_eq!(names(filtered), ["first", "added", "shadow"]);
    assert_eq!(names(scored), ["first", "added"]);
    assert_eq!(scored["nodes"][0]["total"], 2 * 7 + 4, "{scored}");
    let rejected: Vec<&Value> =
        filtered["nodes"].as_array().unwrap().iter().map(|node| &node["rejectedBy"]).collect();
    assert_eq!(rejected, [&Value::Null, &"first".into(), &"added".into()]);
    let purposes: Vec<_> = second
        .messages("Filter")
        .into_iter()
        .map(|message| FilterRequest::decode(message).unwrap().call.unwrap().purpose())
        .collect();
    assert_eq!(purposes, [Purpose::Simulate; 2], "also in shadow");
}

#[tokio::test]
async fn a_verb_with_side_effects_is_not_asked_and_rejects_nothing() {
    let mut counting = info(reading::names());
    counting.verbs.iter_mut().for_each(|verb| verb.set_effects(api::Effects::ChangesOutside));
    let (files, counting, other) =
        (Files::new(), scripted(counting).await, Scripted::refusing(&["c"], "no", 4).await);
    let arguments = format!(
        "--nodes nodes.yaml --pod pod.yaml --backend quota=http://{} --backend other=http://{}",
        counting.address, other.address
    );
    let (code, out, said) = files.tried(&arguments).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    assert!(counting.messages("Filter").is_empty() && counting.messages("Score").is_empty());
    let line = "unsuitable: has side effects and is not asked in a simulation; it was ignored\n";
    assert_eq!(out.matches(line).count(), 2, "{out}");
    assert!(out.contains("2 left, 1 rejected") && !out.contains("Remedy"), "{out}");
}

#[tokio::test]
async fn a_backend_that_does_not_answer_fails_as_configured_and_with_a_remedy() {
    let files = Files::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (code, out, said) =
        files.tried(&format!("--nodes nodes.yaml --pod pod.yaml --backend away=http://{closed}")).await;
    let refused = format!("cannot connect to {closed}: connection refused");
    assert_eq!(code, Some(1), "{out}");
    assert_eq!(said, format!("extender-gateway: no decision: backend away failed filter: {refused}\n"));
    let remedy = format!("- backend away: {refused}. Remedy: start it, or correct its url or tls.\n");
    let of_url = remedy.replace("its url or tls", "the URL of --backend");
    assert!(out.contains(&of_url), "{out}");
    let (_, out, _) =
        files.tried(&format!("--nodes nodes.yaml --pod pod.yaml --backend http://{closed}")).await;
    let unnamed = of_url.replace("backend away: ", &format!("backend backend-1: http://{closed}: "));
    assert!(out.contains(&unnamed), "{out}");
    let other = Scripted::refusing(&["c"], "no", 4).await;
    let away = format!("- {{name: away, url: 'http://{closed}', filter: {{failurePolicy: Ignore}}}}\n");
    files.configure(&(away + &configured("other", &other, "filter: {timeout: 60s}")));
    let (code, out, said) = files.tried("--nodes nodes.yaml --pod pod.yaml --config gateway.yaml").await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains(&remedy) && out.contains("refused; it was ignored\n"), "{out}");
}

#[tokio::test]
async fn backends_that_are_starting_are_waited_for() {
    let files = Files::new();
    for (configures, wait, expected) in [(false, 0, 1), (true, 0, 1), (false, 60, 0), (true, 60, 0)] {
        let handshakes = AtomicUsize::new(0);
        let script = move |verb: &str, message: Bytes| match verb {
            "GetInfo" if handshakes.fetch_add(1, Ordering::Relaxed) < 4 => Act::Status(14, "not now"),
            "GetInfo" => Act::Message(info(reading::names()).encode_to_vec()),
            "Filter" => Act::Message(filtered(&message, &["a"], "no").encode_to_vec()),
            _ => Act::Message(scored(&message, |_| 1).encode_to_vec()),
        };
        let backend = Scripted::start_bare(script, None).await;
        files.configure(&configured("starting", &backend, "filter: {}"));
        let added = format!("--backend http://{}", backend.address);
        let source = if configures { "--config gateway.yaml" } else { &added };
        let (code, out, said) =
            files.tried(&format!("--nodes nodes.yaml --pod pod.yaml --wait {wait} {source}")).await;
        assert_eq!(code, Some(expected), "{source} {wait}: {out}{said}");
    }
}

#[tokio::test]
async fn the_wait_is_one_for_the_verbs_and_the_decision() {
    let files = Files::new();
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let begun = Instant::now();
    let (code, _, said) =
        files.tried(&format!("--nodes nodes.yaml --pod pod.yaml --wait 4 --backend http://{closed}")).await;
    assert_eq!(code, Some(1), "{said}");
    assert!((4..8).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn wrong_args_have_a_remedy_on_the_command_line() {
    let backend = Scripted::start_bare(|_: &str, _: Bytes| Act::Status(3, "args: no label"), None).await;
    let (files, address) = (Files::new(), backend.address);
    let line = format!("--nodes nodes.yaml --pod pod.yaml --args {{}} --backend http://{address}");
    let (code, out, _) = files.tried(&line).await;
    assert_eq!(code, Some(1), "{out}");
    let expected = format!(
        "- backend backend-1: http://{address}: handshake failed: INVALID_ARGUMENT: args: no label. \
         Remedy: correct --args: its message says what is wrong with them.\n"
    );
    assert!(out.contains(&expected), "{out}");
}

#[tokio::test]
async fn a_late_backend_has_a_remedy_and_a_node_has_all_answers() {
    let (files, late, other) =
        (Files::new(), Scripted::always(Act::Hang).await, scripted(info(reading::names())).await);
    let ignored = "filter: {failurePolicy: Ignore, timeout: 100ms}";
    files.configure(
        &(configured("late", &late, ignored) + &configured("other", &other, "filter: {timeout: 60s}")),
    );
    let arguments = "--nodes nodes.yaml --pod pod.yaml --config gateway.yaml --node";
    let (code, out, said) = files.tried(&format!("{arguments} a")).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    for expected in [
        "late: no answer within 100 ms; it was ignored\n",
        " calls to filter failed (late ",
        ". Remedy: speed it up, or raise its timeout; if it hangs, restart it.\n",
        "\nAnswers for a:\n",
        "other    rejected: rack is being drained\n",
    ] {
        assert!(out.contains(expected), "{expected}\n{out}");
    }
    let (_, out, _) = files.tried(&format!("{arguments} d")).await;
    assert!(
        out.contains(
            "d was not offered in this attempt, although all 3 nodes that are known were: check the name"
        ),
        "{out}"
    );
}

#[tokio::test]
async fn json_usage_and_counts_come_from_the_files() {
    let files = Files::new();
    let raw = Running::start(sdk::raw).await;
    let list = files.decided(&format!("--backend http://{}", raw.address)).await;
    assert_eq!(list["items"][1]["nodes"][2]["reason"], "unusable", "{list}");
    let usage = Running::start(sdk::usage).await;
    let arguments = format!("--nodes nodes.yaml --pod pod.yaml --backend full=http://{}", usage.address);
    let (code, out, said) = files.tried(&arguments).await;
    assert_eq!((code, out.as_str()), (Some(2), ""));
    assert!(
        said.starts_with("extender-gateway: backend full reads usage of nodes, ")
            && said.contains("; add --pods FILE"),
        "{said}"
    );
    let pod = |name: &str, rest: &str| {
        format!(
            r#"{{"metadata": {{"name": "{name}"}}, "spec": {{"nodeName": "b", "containers": [{{"resources": {{"requests": {{"cpu": "300m"}}}}}}]}}{rest}}}"#
        )
    };
    let ended = r#", "status": {"phase": "Succeeded"}"#;
    for (second, reason) in [(pod("two", ended), Value::Null), (pod("two", ""), "full".into())] {
        let pods = format!(r#"{{"kind": "PodList", "items": [{}, {second}]}}"#, pod("one", ""));
        files.write("pods.json", &pods);
        let list = files.decided(&format!("--pods pods.json --backend http://{}", usage.address)).await;
        let filter = list["items"].as_array().unwrap().last().unwrap();
        assert_eq!(filter["nodes"][0]["reason"], reason, "{list}");
    }
}

#[tokio::test]
async fn the_rows_have_the_facts_of_the_file_whatever_the_first_handshake_requests() {
    let (files, backend) = (Files::new(), scripted(info(reading::json())).await);
    files.decided(&format!("--backend http://{}", backend.address)).await;
    let rows: Vec<api::NodeRow> = rows(&backend.messages("Filter")[0]);
    assert!(rows.iter().all(|row| row.raw_json.starts_with(b"{")), "{rows:?}");
}

#[tokio::test]
async fn several_pods_are_recorded_and_expected() {
    let (files, backend) = (Files::new(), scripted(info(reading::names())).await);
    fs::create_dir(files.path().join("tests")).unwrap();
    files.write("other.json", r#"{"kind": "Pod", "metadata": {"name": "single"}}"#);
    let url = format!("http://{}", backend.address);
    let (code, _, said) = files
        .tried(&format!(
            "--nodes nodes.yaml --pod pod.yaml --pod other.json --backend {url} --record tests/expected.yaml"
        ))
        .await;
    assert_eq!((code, said.as_str()), (Some(0), "wrote tests/expected.yaml\n"));
    let expected = fs::read_to_string(files.path().join("tests/expected.yaml")).unwrap();
    let of_pod = "  feasible: [b, c]\n  rejected:\n    a: \"scripted: rack is being drained\"\n  first: b\n  scores:\n    b: 7\n    c: 3\n";
    assert!(
        expected.ends_with(&format!(
            "expect:\n- pod: \"../pod.yaml\"\n{of_pod}- pod: \"../other.json\"\n{of_pod}"
        )),
        "{expected}"
    );
    let expect = format!("--nodes nodes.yaml --backend {url} --expect tests/expected.yaml");
    let met = "ok: pod.yaml: 2 feasible nodes, 1 rejected\nok: other.json: 2 feasible nodes, 1 rejected\n";
    assert_eq!(files.tried(&expect).await, (Some(0), met.to_owned(), String::new()));
    let wrong = expected.replacen("drained", "repaired", 1).replacen("first: b", "first: c", 1);
    files.write("tests/expected.yaml", &wrong);
    let (code, out, said) = files.tried(&expect).await;
    assert_eq!(code, Some(1));
    assert!(
        out.starts_with("Pod shop/web-") && out.ends_with("ok: other.json: 2 feasible nodes, 1 rejected\n"),
        "{out}"
    );
    let said: Vec<&str> = said.lines().collect();
    assert_eq!(
        said,
        [
            "extender-gateway: 2 differences",
            "- pod.yaml: a is rejected by scripted: rack is being drained; expected rejected with \"scripted: rack is being \
             repaired\"",
            "- pod.yaml: b is first, and c has the total 3; expected c first",
        ]
    );
}

#[tokio::test]
async fn a_usage_error_says_what_to_change() {
    let (files, backend) = (Files::new(), scripted(info(reading::names())).await);
    let preempting =
        Scripted::start(GetInfoResponse { verbs: Vec::new(), ..info(reading::names()) }, |_, _| Act::Hang)
            .await;
    let url = format!("http://{}", backend.address);
    files.configure(&configured("racks", &backend, "filter: {}"));
    files.write("one.yaml", "expect:\n- {feasible: []}\n");
    let usage = [
        (
            "--pod pod.yaml".to_owned(),
            "name a running one with --backend URL, or a gateway's configuration with --config FILE",
        ),
        (format!("--backend {url}"), "--pod <FILE>"),
        ("--pod pod.yaml --args {} --config gateway.yaml".to_owned(), "--backend <[NAME=]URL>"),
        (
            "--pod pod.yaml --backend https://a:1".to_owned(),
            "TLS needs files; describe this backend in a configuration",
        ),
        (
            format!("--pod pod.yaml --backend {url} --backend {url} --args {{}}"),
            "--args: there is more than one backend; write NAME=JSON",
        ),
        (format!("--pod pod.yaml --backend a={url} --args b={{}}"), "--args: there is no --backend b=URL"),
        (
            format!("--pod pod.yaml --config gateway.yaml --backend racks={url}"),
            "--backend racks=…: another backend has this name",
        ),
        (format!("--pod pod.yaml --backend a={url} --backend a={url}"), "is already the name of backends[0]"),
        (
            format!("--pod pod.yaml --backend http://{}", preempting.address),
            "it serves neither filter nor score",
        ),
        (
            format!("--pod pod.yaml --pod pod.yaml --backend {url} --expect one.yaml"),
            "give one --pod at most",
        ),
        (
            "--pod pod.yaml --config - --watch".to_owned(),
            "--watch cannot read the configuration from standard input again",
        ),
        (format!("--pod pod.yaml --backend {url} --record a --expect one.yaml"), "cannot be used with"),
    ];
    for (arguments, expected) in usage {
        let (code, out, said) = files.tried(&format!("--nodes nodes.yaml {arguments}")).await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{arguments}: {said}");
        assert!(said.contains(expected), "{arguments}: {said}");
    }
}

#[tokio::test]
async fn an_invalid_file_is_named() {
    let (files, backend) = (Files::new(), scripted(info(reading::names())).await);
    files.configure(&configured("racks", &backend, "filter: {}"));
    let wrong = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\nbackends: []\n";
    for (name, text) in
        [("wrong.yaml", wrong), ("empty.yaml", ""), ("one.yaml", "expect:\n- {feasible: []}\n")]
    {
        files.write(name, text);
    }
    let invalid = [
        (
            "--nodes nodes.yaml --pod pod.yaml --config wrong.yaml",
            "wrong.yaml line 3: backends: is an empty list; ",
        ),
        (
            "--nodes nodes.yaml --pod nodes.yaml --config gateway.yaml",
            "nodes.yaml: the file contains no pod, only Node (3); ",
        ),
        (
            "--nodes nodes.yaml --pod gone.yaml --pod empty.yaml --config gateway.yaml",
            "gone.yaml: cannot be read: No such file or directory (os error 2); expected a Pod, Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob\nempty.yaml: the file contains no object; ",
        ),
        ("--nodes gone.yaml --pod pod.yaml --config gateway.yaml", "gone.yaml: cannot be read: No such file"),
        (
            "--nodes empty.yaml --pod pod.yaml --config gateway.yaml",
            "empty.yaml: the file contains no node; ",
        ),
        (
            "--nodes nodes.yaml --pods nodes.yaml --pod pod.yaml --config gateway.yaml",
            "nodes.yaml: object 1 is of kind \"Node\", not Pod; ",
        ),
        (
            "--nodes nodes.yaml --pods empty.yaml --pod pod.yaml --config gateway.yaml",
            "empty.yaml: the file contains no object; for an empty cluster write `[]`",
        ),
        (
            "--nodes nodes.yaml --expect one.yaml --config gateway.yaml",
            "one.yaml line 2: expect[0].pod: is missing; ",
        ),
        (
            "--nodes nodes.yaml --expect gone.yaml --config gateway.yaml",
            "gone.yaml: cannot be read: No such file",
        ),
    ];
    for (arguments, expected) in invalid {
        let (code, out, said) = files.tried(arguments).await;
        assert_eq!((code, out.as_str()), (Some(3), ""), "{arguments}: {said}");
        assert!(said.starts_with(expected), "{arguments}: {said}");
    }
}

#[tokio::test]
async fn it_decides_again_when_a_file_changes() {
    let (files, backend) = (Files::new(), scripted(info(reading::names())).await);
    let arguments = format!("--nodes nodes.yaml --pod pod.yaml --watch --backend http://{}", backend.address);
    let mut child = files.command(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut until = async |expected: &str| loop {
        let line = out.next_line().await.unwrap().unwrap_or_else(|| panic!("no line with {expected}"));
        if line.contains(expected) {
            return;
        }
    };
    until("REJECTED  BY").await;
    files.write("nodes.yaml", "metadata: [");
    let line = said.next_line().await.unwrap().unwrap();
    assert!(line.starts_with("nodes.yaml: not YAML: ") && line.contains("line 1"), "{line}");
    until(": nodes.yaml has changed").await;
    files.write("nodes.yaml", "kind: Node\nmetadata: {name: d}\n");
    until("1 of 1 node was offered, none rejected").await;
    files.write("nodes.yaml", "kind: Node\nmetadata: {name: d, labels: {x: y}}\n");
    until("The decision is the same.").await;
    signal(&child, "INT").await;
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn objects_are_written_with_all_that_a_policy_can_read() {
    let files = Files::new();
    files.write(
        "nodes.yaml",
        "kind: Node\nmetadata: {name: b, labels: {zone: z}, annotations: {rack: r7}}\n\
         status: {images: [{names: [web], sizeBytes: 7}]}\n---\nkind: Node\nmetadata: {name: a}\n",
    );
    files.write(
        "pod.yaml",
        "kind: Pod\nmetadata: {name: web, namespace: shop, annotations: {tier: gold}, labels: {app: web}}\n\
         spec: {containers: [{name: c, image: web, resources: {requests: {cpu: 1}}}]}\n",
    );
    let pod = |name: &str, node: &str, nominated: &str| {
        format!(
            "- {{metadata: {{name: {name}}}, spec: {{nodeName: {node}, containers: [{{resources: {{requests: {{cpu: 2}}}}}}]}}, \
             status: {{nominatedNodeName: {nominated}}}}}\n"
        )
    };
    let pods = pod("one", "a", "''") + &pod("two", "''", "b") + &pod("bound", "a", "b");
    files.write("pods.yaml", &pods);

    let (code, out, said) =
        files.tried("--nodes nodes.yaml --pod pod.yaml --pods pods.yaml --objects o.binpb").await;
    assert_eq!((code, out.as_str(), said.as_str()), (Some(0), "", "wrote o.binpb\n"));
    let request = files.written();
    let pod = request.pod.unwrap();
    let facts = pod.facts.unwrap();
    assert_eq!((facts.namespace.as_str(), pod.identity.unwrap().name.as_str()), ("shop", "web"));
    assert_eq!(facts.annotations.unwrap().entries["tier"], "gold");
    assert_eq!(facts.labels.unwrap().entries["app"], "web");
    assert_eq!((facts.requests.unwrap().milli_cpu, facts.containers.len()), (1_000, 1));
    assert!(pod.raw_json.starts_with(b"{") && pod.topology_counts.is_empty());
    let nodes = request.nodes.unwrap();
    assert_eq!(nodes.count, 2);
    let Some(Form::Rows(api::NodeRows { rows })) = nodes.form else { panic!("rows") };
    let cpu = |usage: &Option<api::NodeUsage>| {
        usage.as_ref().unwrap().requested.as_ref().map_or(0, |requested| requested.milli_cpu)
    };
    let told = rows.iter().map(|row| (row.name.as_str(), cpu(&row.usage), cpu(&row.nominated)));
    assert_eq!(told.collect::<Vec<_>>(), [("b", 0, 2_000), ("a", 4_000, 0)]);
    let facts = rows[0].facts.clone().unwrap();
    assert_eq!((facts.images.len(), facts.unschedulable), (1, Some(false)));
    assert_eq!(facts.labels.unwrap().entries["zone"], "z");
    assert_eq!(facts.annotations.unwrap().entries["rack"], "r7");
    assert!(rows.iter().all(|row| row.raw_json.starts_with(b"{")));
}

#[tokio::test]
async fn objects_are_of_one_pod_and_need_no_backend() {
    let files = Files::new();
    // Without pods their usage is not known. With a backend there is a decision, too.
    let backend = scripted(info(reading::facts())).await;
    let line =
        format!("--nodes nodes.yaml --pod pod.yaml --objects o.binpb --backend http://{}", backend.address);
    let (code, out, said) = files.tried(&line).await;
    assert_eq!((code, said.as_str()), (Some(0), "wrote o.binpb\n"), "{out}");
    let request = files.written();
    let Some(Form::Rows(api::NodeRows { rows })) = request.nodes.unwrap().form else { panic!("rows") };
    assert!(rows.iter().all(|row| row.usage.is_none() && row.nominated.is_none()));

    files.write("two.yaml", "kind: Pod\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}\n");
    for (arguments, code, expected) in [
        ("--pod pod.yaml --pod pod.yaml", 2, "--objects writes one pod with the nodes; give one --pod\n"),
        (
            "--pod two.yaml",
            3,
            "the file contains more than one pod: object 1 (Pod a), object 2 (Pod b); keep one of them\n",
        ),
        ("--pod nodes.yaml", 3, "the file contains no pod, only Node (3); expected a Pod, "),
        ("", 2, "--pod <FILE>"),
        ("--pod pod.yaml --record r.yaml", 2, "there is no backend; "),
    ] {
        let (ended, _, said) =
            files.tried(&format!("--nodes nodes.yaml --objects o.binpb {arguments}")).await;
        assert!(ended == Some(code) && said.contains(expected), "{arguments}: {ended:?} {said}");
    }
}

#[tokio::test]
async fn hooks_run_also_those_of_a_backend_without_other_verbs() {
    let files = Files::new();
    let mut alone = hooks(&[Verb::BeforeFilterNodes]);
    alone.verbs.drain(..2);
    let hook = Scripted::start(alone, |_, message| {
        let taint =
            api::Taint { key: "full".to_owned(), effect: "NoSchedule".to_owned(), ..api::Taint::default() };
        let change =
            api::NodeChange { positions: vec![0], add_taints: vec![taint], ..api::NodeChange::default() };
        let response = api::ChangeResponse {
            result: Some(result(rows(&message).len())),
            pod: None,
            nodes: vec![change],
        };
        Act::Message(response.encode_to_vec())
    });
    let (hook, policy) = (hook.await, scripted(info(reading::facts())).await);
    let line = format!(
        "--nodes nodes.yaml --pod pod.yaml --backend room=http://{} --backend http://{}",
        hook.address, policy.address
    );
    let (code, out, said) = files.tried(&line).await;
    assert_eq!((code, said.as_str()), (Some(0), ""), "{out}");
    assert!(out.contains("      1  room  taint full:NoSchedule  b\n"), "{out}");
    let taints: Vec<_> =
        rows(&policy.messages("Filter")[0]).into_iter().map(|row| row.facts.unwrap().taints.len()).collect();
    assert_eq!(taints, [1, 0, 0]);
    // A hook that reads usage or nominated pods needs pods.
    for (part, what) in [(NodePart::Usage, "usage of nodes"), (NodePart::Nominated, "nominated pods")] {
        let mut reads_pods = hooks(&[Verb::BeforeFilterNodes]);
        reads_pods.verbs[2].reads = Some(reading::with_part(reading::facts(), part));
        let needy = Scripted::start(reads_pods, |verb, message| agrees(verb, &message)).await;
        let line = format!("--nodes nodes.yaml --pod pod.yaml --backend room=http://{}", needy.address);
        let (code, _, said) = files.tried(&line).await;
        assert_eq!(code, Some(2));
        assert!(said.starts_with(&format!("extender-gateway: backend room reads {what}, ")), "{said}");
    }
}
