//! Command lines, their output and exit codes.

use std::cell::Cell;
use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

const RIGHT: &str = "\
apiVersion: extender-gateway.io/v1alpha1
kind: GatewayConfiguration
nodes: {source: File, file: nodes.yaml}
backends:
- {name: zones, url: 'http://zones:9000', args: {prefer: [a, 2]}, score: {weight: 2, normalize: Max}}
- {name: racks, url: 'http://racks:9000', filter: {timeout: 1s}}
";

fn arguments(line: &[&str]) -> Result<Arguments, clap::Error> {
    Arguments::try_parse_from([&["extender-gateway"], line].concat())
}

/// Runs a command on a file with this text: its result, its output and the configuration passed to `serve`.
fn run(command: &str, text: &str) -> (Result<(), Failure>, String, Option<Config>) {
    let (outcome, [out, _], served) = run_with(&[command], text);
    (outcome, out, served)
}

/// Runs a command with options on a file with this text: its result, its output and notes, and the configuration
/// passed to `serve`.
fn run_with(line: &[&str], text: &str) -> (Result<(), Failure>, [String; 2], Option<Config>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    std::fs::write(&file, text).unwrap();
    let (served, mut out, mut notes) = (Cell::new(None), Vec::new(), Vec::new());
    let serve = |_: &Path, config, _: DebugTables| {
        served.set(Some(config));
        Err("address 0.0.0.0:8888 is taken")
    };
    let line = [line, &["--config", file.to_str().unwrap()]].concat();
    let mut console = Console { out: &mut out, notes: &mut notes };
    let outcome = arguments(&line).unwrap().execute(None, serve, &mut console);
    let text = |bytes| String::from_utf8(bytes).unwrap().replace(folder.path().to_str().unwrap(), "/etc");
    (outcome, [text(out), text(notes)], served.into_inner())
}

/// What a failure prints.
fn told(failure: &Failure) -> String {
    let mut told = Vec::new();
    failure.report(&mut told);
    String::from_utf8(told).unwrap()
}

#[test]
fn the_definition_is_consistent() {
    Arguments::command().debug_assert();
}

#[test]
fn wrong_command_lines() {
    let cases: [(&[&str], ErrorKind); 9] = [
        (&[], ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
        (&["serve"], ErrorKind::MissingRequiredArgument),
        (&["serve", "gateway.yaml"], ErrorKind::UnknownArgument),
        (&["check-config", "--config"], ErrorKind::InvalidValue),
        (&["check"], ErrorKind::InvalidSubcommand),
        (&["scheduler-config", "--config", "a", "--kubernetes", "2.0"], ErrorKind::ValueValidation),
        (&["scheduler-config", "--config", "a", "--kubernetes", "1.2"], ErrorKind::ValueValidation),
        (&["scheduler-config", "--config", "a", "--cert-file", "b"], ErrorKind::MissingRequiredArgument),
        (&["scheduler-config", "--config", "a", "--print", "gateway"], ErrorKind::ArgumentConflict),
    ];
    for (line, kind) in cases {
        let error = arguments(line).unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (kind, 2), "{line:?}");
    }
}

#[test]
fn wrong_uses_of_explain_and_status_name_the_thing_and_the_remedy() {
    let cases: [(&[&str], &str); 16] = [
        (&["explain"], "<pod/NAME>"),
        (&["explain", "web-0", "shop"], "unexpected argument 'shop'"),
        (
            &["explain", "node/web"],
            "\"node\" is neither a pod nor a workload; expected pod/web, with the namespace in -n, or deployment",
        ),
        (&["explain", "Web"], "\"Web\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`"),
        (
            &["explain", "a", "-n", "a.b"],
            "\"a.b\" is not the name of a namespace; expected a name as in `kubectl get namespaces`",
        ),
        (
            &["explain", "a", "--node", "a b"],
            "\"a b\" is not the name of a node; expected a name as in `kubectl get nodes`",
        ),
        (&["explain", "a", "--top", "-1"], "unexpected argument '-1'"),
        (&["explain", "a", "--top", "many"], "invalid value 'many' for '--top <N>'"),
        (&["explain", "a", "-o", "wide"], "[possible values: table, json, yaml]"),
        (
            &["explain", "a", "--gateway", "gateway:9403"],
            "\"gateway:9403\" has no scheme; expected http://HOST:PORT or https://HOST:PORT such as http://",
        ),
        (&["status", "--tls-cert", "tls.crt"], "--tls-key <FILE>"),
        (&["status", "--token", "a", "--token-file", "b"], "cannot be used with '--token-file <FILE>'"),
        (&["status", "--admin-port", "1"], "--gateway-namespace <NAMESPACE>"),
        (&["status", "--gateway-namespace", "a", "--admin-port", "65536"], "65536 is not in 1..=65535"),
        (
            &["status", "--gateway-namespace", "a/b"],
            "\"a/b\" is not the name of a namespace; expected a name as",
        ),
        (&["explain", "a", "--no-cluster", "--context", "b"], "cannot be used with '--context <NAME>'"),
    ];
    for (line, text) in cases {
        let error = arguments(line).unwrap_err();
        let told = error.to_string().replace("\n  ", " ");
        assert!(error.exit_code() == 2 && told.contains(text), "{line:?}: {told}");
    }
}

#[test]
fn the_plugin_takes_the_same_arguments() {
    Plugin::command().debug_assert();
    for line in [
        &["explain", "web-0", "-n", "shop"] as &[_],
        &["explain", "po/web-0", "--context", "b", "--kubeconfig", "c", "--top", "0"],
        &["status", "--gateway-namespace", "gw", "-o", "wide"],
        &["version", "--client"],
    ] {
        assert!(Plugin::try_parse_from([&["kubectl-extender"], line].concat()).is_ok(), "{line:?}");
        assert!(arguments(line).is_ok(), "{line:?}");
    }
    for line in [&["kubectl-extender"] as &[_], &["kubectl-extender", "serve"]] {
        assert_eq!(Plugin::try_parse_from(line).unwrap_err().exit_code(), 2, "{line:?}");
    }
    let help = Plugin::try_parse_from(["kubectl-extender", "status", "--help"]).unwrap_err().to_string();
    assert!(help.contains("Usage: kubectl extender status [OPTIONS]"), "{help}");
}

#[test]
fn the_help_has_the_exit_codes() {
    for (line, codes) in [
        ("explain", &["0", "1", "2", "5", "6"] as &[_]),
        ("status", &["0", "1", "2", "4", "5"]),
        ("version", &["0", "1", "2", "5"]),
    ] {
        let help = arguments(&[line, "--help"]).unwrap_err().to_string();
        let (_, listed) = help.split_once("Exit codes:\n").unwrap();
        let listed: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(listed, codes, "{help}");
    }
}

/// The effective configuration of `RIGHT`.
const MEANING: &str = "\
# /etc/gateway.yaml is valid. Effective configuration:
apiVersion: extender-gateway.io/v1alpha1
kind: GatewayConfiguration
extender:
  address: \"0.0.0.0:8888\"
  # socket: none
  maxRequestBytes: 128Mi
  maxBytesInFlight: 512Mi
  # tls: none
  allowUnauthenticatedBind: false
  verbs:
    filter: filter
    prioritize: prioritize
    preempt: preempt
    bind: bind
  calledFor: AllPods
  ignorable: false
metrics:
  address: \"0.0.0.0:9402\"
  # tls: none
  authorization: None
admin:
  address: \"127.0.0.1:9403\"
  hosts: []
  # tls: none
  authorization: None
otlp: {}
  # endpoint: OTEL_EXPORTER_OTLP_ENDPOINT
  # protocol: OTEL_EXPORTER_OTLP_PROTOCOL
  # timeout: OTEL_EXPORTER_OTLP_TIMEOUT
traces:
  # exporter: OTLP if the OTEL_* variables enable it, otherwise None
  # ratio: OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, or 1
  keepSlowerThan: 500ms
  # podAnnotation: none
decisions:
  maxBytes: 64Mi
log:
  format: Text
  level: info
timeouts:
  decision: 1s
  bind: 10s
  shutdown: 25s
cluster: {}
  # name: backends are told none
  # kubeconfig: KUBECONFIG, ~/.kube/config or the pod's service account
nodes:
  source: File
  file: /etc/nodes.yaml
pods: {}
  # source: Watch where nodes are watched and a backend has preempt, otherwise None
exempt: {}
  # namespaces: kube-system and the gateway's own namespace
readiness:
  backends: []
reasons:
  prefix: Backend
  changing: Held
  repeated: BackOff
requeue: None
events: None
binder: None
backends:  # in effective order
- name: racks
  url: http://racks:9000
  mode: Enforce
  pureAnswers: Remembered
  match: {}
  filter:
    timeout: 1s
    failurePolicy: Fail
    preemptionMayHelp: Ignored
- name: zones
  url: http://zones:9000
  mode: Enforce
  pureAnswers: Remembered
  args: {\"prefer\":[\"a\",2]}
  match: {}
  score:
    timeout: 200ms
    weight: 2
    normalize: Max
    # reversed: as the backend declares
    failurePolicy: Ignore
";

#[test]
fn check_config_prints_what_the_file_means() {
    let (outcome, [out, notes], served) = run_with(&["check-config", "--no-files"], RIGHT);
    let warning = "warning: backends[1].filter.timeout: equals timeouts.decision, 1s; ";
    assert!(notes.starts_with(warning) && notes.lines().count() == 1, "{notes}");
    assert_eq!(out, MEANING);
    assert!(outcome.is_ok() && served.is_none());
}

#[test]
fn mistakes_end_every_command_and_are_counted() {
    let text = format!("{RIGHT}- {{}}\n").replace("1s", "1");
    for command in ["serve", "check-config", "scheduler-config"] {
        let (outcome, out, served) = run(command, &text);
        let failure = outcome.unwrap_err();
        assert_eq!((failure.exit_code(), out.as_str(), served), (3, "", None));
        let told = told(&failure);
        assert!(told.contains("gateway.yaml line 6: backends[1].filter.timeout: 1 has no unit; "), "{told}");
        assert!(told.ends_with("\n4 mistakes\n"), "{told}");
    }
}

#[test]
fn check_config_reads_the_files_that_are_named() {
    let (outcome, [out, _], _) = run_with(&["check-config"], RIGHT);
    let failure = outcome.unwrap_err();
    let told = told(&failure);
    assert!(told.contains("/gateway.yaml line 3: nodes.file: /") && told.lines().count() == 1, "{told}");
    assert_eq!((failure.exit_code(), out.as_str()), (3, ""));
}

#[test]
fn a_directory_is_no_configuration() {
    let folder = tempfile::tempdir().unwrap();
    let error = Config::read(folder.path()).unwrap_err().to_string();
    let expected = ": is a directory; expected the path of a file in it such as gateway.yaml";
    assert_eq!(error, format!("{}{expected}", folder.path().display()));
}

#[test]
fn serve_gets_the_configuration_and_its_error_is_told() {
    let (outcome, out, served) = run("serve", RIGHT);
    assert_eq!(served.unwrap().backends.len(), 2);
    let failure = outcome.unwrap_err();
    assert_eq!(told(&failure), "extender-gateway: address 0.0.0.0:8888 is taken\n");
    assert_eq!((failure.exit_code(), out.as_str()), (1, ""));
}

#[test]
fn a_file_that_is_not_there_is_no_mistake_to_count() {
    let failure: Failure = Config::read(Path::new("no/such.yaml")).unwrap_err().into();
    let told = told(&failure);
    assert!(told.starts_with("no/such.yaml: cannot be read: ") && told.lines().count() == 1, "{told}");
}

#[test]
fn scheduler_config_prints_a_profile_for_the_plugin() {
    let line = |more: &[&'static str]| [&["scheduler-config", "--door", "plugin"], more].concat();
    let with_socket = RIGHT.replace("nodes:", "extender: {socket: /run/gateway/plugin.sock}\nnodes:");
    let resources = "match: {managedResources: [{name: a.io/gpu, ignoredByScheduler: true}]}";
    let more = format!("- {{name: evict, url: 'http://e:1', filter: {{}}, preempt: {{}}, {resources}}}\n");
    let (outcome, [out, notes], _) = run_with(&line(&["--ignorable"]), &(with_socket.clone() + &more));
    assert!(outcome.is_ok(), "{notes}");
    let expected = "\
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      disabled:
      - name: DefaultPreemption  # asks no backend; the plugin preempts
      enabled:
      - name: ExtenderGateway
        weight: 10  # as much as an extender of weight 1
    filter:
      enabled:
      - name: ExtenderGateway  # before the filters that take longer
    bind:
      enabled:
      - name: ExtenderGateway  # before the binder that asks no backend
  pluginConfig:
  - name: ExtenderGateway
    args:
      socket: /run/gateway/plugin.sock
      timeout: 3s
      ignorable: true  # while no gateway answers, pods are placed without any policy
  - name: NodeResourcesFit
    args:
      ignoredResources:
      - a.io/gpu
";
    assert_eq!(out, expected);
    assert!(notes.contains("with both, kube-scheduler does not start"), "{notes}");
    let (_, [out, notes], _) = run_with(&line(&[]), &with_socket);
    assert!(!out.contains("ignor") && notes.lines().count() == 1, "{out}{notes}");
    for (more, text, part) in [
        (&[][..], RIGHT, "extender.socket is not set"),
        (&["--url", "http://gateway:1"], &*with_socket, "--url is for --door extender"),
        (&["--kubernetes", "1.34"], &with_socket, "no plugin for 1.34, only for 1.35"),
    ] {
        let failure = run_with(&line(more), text).0.unwrap_err();
        assert!(failure.exit_code() == 2 && told(&failure).contains(part), "{}", told(&failure));
    }
}

#[test]
fn scheduler_config_prints_what_the_version_reads() {
    let (outcome, [out, notes], _) = run_with(&["scheduler-config", "--url", "http://gateway:1"], RIGHT);
    assert!(outcome.is_ok() && notes.is_empty());
    assert!(
        out.starts_with("extenders:\n- urlPrefix: \"http://gateway:1\"\n  filterVerb: filter\n"),
        "{out}"
    );
    let (outcome, [out, notes], _) =
        run_with(&["scheduler-config", "--kubernetes", "v1.18.3", "--minimal"], RIGHT);
    assert!(outcome.is_ok() && out.starts_with("{\n  \"kind\": \"Policy\",\n"), "{out}");
    let expected = "\
urlPrefix assumes kube-scheduler on the gateway's machine; set --url to change it
kube-scheduler up to 1.20 drops rejected nodes but shows no reason unless preemption may help
";
    assert_eq!(notes, expected);
    assert!(!out.contains("preemptVerb"), "{out}");
    let line = ["scheduler-config", "--kubernetes", "1.20", "--url", "http://gateway:1"];
    let (outcome, [out, notes], _) = run_with(&line, RIGHT);
    assert!(outcome.is_ok() && out.starts_with("extenders:\n"), "{out}");
    assert!(notes.starts_with("kube-scheduler up to 1.20 ") && notes.lines().count() == 1, "{notes}");
}

#[test]
fn files_that_are_left_to_the_operator_are_noted() {
    let tls = RIGHT.replace("nodes:", "extender: {tls: {certFile: a, keyFile: b}}\nnodes:");
    let (_, [out, notes], _) = run_with(&["scheduler-config"], &tls);
    assert_eq!(notes, "fill in the files of tlsConfig, or set --ca-file, --cert-file and --key-file\n");
    assert!(out.contains("/FILL/IN/ca.crt"), "{out}");
    let (_, [_, notes], _) = run_with(&["scheduler-config", "--ca-file", "ca.crt"], &tls);
    assert_eq!(notes, "");
}

#[test]
fn options_that_do_not_go_with_the_configuration_are_wrong_usage() {
    let (outcome, [out, _], _) = run_with(&["scheduler-config", "--url", "gateway:1"], RIGHT);
    let failure = outcome.unwrap_err();
    let expected = "extender-gateway: --url: \"gateway:1\" is not http://HOST:PORT or https://HOST:PORT \
                    with or without a path\n";
    assert_eq!((failure.exit_code(), out.as_str(), told(&failure).as_str()), (2, "", expected));
}
