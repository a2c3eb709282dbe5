//! Invalid configurations and their errors.

mod backends;

use super::{BACKENDS, HEADER, parse};

/// The errors of a text, one mistake per line.
fn said(yaml: &str) -> Vec<String> {
    let errors = parse(yaml).expect_err(yaml);
    errors.mistakes().iter().map(ToString::to_string).collect()
}

/// The errors of a valid configuration with these lines added, without line numbers.
fn said_of_lines(lines: &str) -> Vec<String> {
    sentences(&format!("{HEADER}{lines}\n{BACKENDS}"))
}

/// The errors of a valid configuration with this as its second backend, without line numbers.
fn said_of_backend(backend: &str) -> Vec<String> {
    sentences(&format!("{HEADER}backends:\n- {{name: a, url: 'http://a:1', filter: {{}}}}\n- {backend}"))
}

fn sentences(yaml: &str) -> Vec<String> {
    let errors = parse(yaml).expect_err(yaml);
    errors.mistakes().iter().map(super::Mistake::sentence).collect()
}

#[test]
fn every_mistake_is_told_at_once_in_the_order_of_the_file() {
    let yaml = "\
apiVersion: extender-gateway.io/v1alpha1
kind: Gateway
timeouts: {decision: 1, bind: 10}
backends:
- name: rack-drain
  url: https://rack-drain:9000
  filter: {timeout: 200ms, failurePolicy: fail}
- name: rack-drain
  fliter: {}
  score:
    weight: 0
    timeout: 5
";
    let expected = [
        "line 2: kind: is \"Gateway\"; expected GatewayConfiguration",
        "line 3: timeouts.decision: 1 has no unit; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
        "line 3: timeouts.bind: 10 has no unit; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
        "line 5: backends[0].tls: is missing, but url is https; expected {caFile: FILE}",
        "line 7: backends[0].filter.failurePolicy: unknown value \"fail\"; expected Fail or Ignore",
        "line 8: backends[1].url: is missing; \
         expected http://HOST:PORT or https://HOST:PORT such as http://rack-drain.policies.svc:9000",
        "line 8: backends[1].name: \"rack-drain\" is already the name of backends[0]; expected a unique name",
        "line 9: backends[1].fliter: unknown field; did you mean filter? \
         Known fields: name, url, tls, mode, canary, maxRejectShare, pureAnswers, args, match, filter, score, preempt, bind, beforeFilter, \
         beforeFilterNodes, beforeScore",
        "line 11: backends[1].score.weight: 0 is out of range; expected a whole number from 1 to 1000000",
        "line 12: backends[1].score.timeout: 5 has no unit; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
    ];
    assert_eq!(said(yaml), expected);
}

#[test]
fn documents_that_are_no_configuration() {
    let cases = [
        (
            "",
            "line 1: the file is empty; expected apiVersion: extender-gateway.io/v1alpha1, kind: GatewayConfiguration and backends",
        ),
        ("- 1", "line 1: is a list; expected a mapping with apiVersion, kind and backends"),
        ("x", "line 1: \"x\" is a string; expected a mapping with apiVersion, kind and backends"),
        (
            "a: 1\nb: [",
            "line 2: invalid YAML: unclosed bracket '[' at line 2, column 4; expected a single valid YAML document",
        ),
        (
            "a: 'x",
            "line 1: invalid YAML: unclosed quote at line 1, column 4; expected a single valid YAML document",
        ),
        (
            "a: *b",
            "line 1: invalid YAML: reference to unknown value at line 1, column 4; expected a single valid YAML document",
        ),
        (
            "a: !new 1",
            "line 1: invalid YAML: unsupported tag `!new` at line 1, column 9; expected a single valid YAML document",
        ),
        ("a: 1\n---\nb: 2", "line 3: the file has several YAML documents; keep one of them"),
        (
            "a: 1\n---\n# For kube-scheduler.\nextenders:\n- urlPrefix: x\n",
            "line 4: the file has several YAML documents; the second one is for kube-scheduler: print one with \
             `scheduler-config --import FILE --print gateway`",
        ),
    ];
    for (yaml, expected) in cases {
        assert_eq!(said(yaml), [expected], "{yaml:?}");
    }
}

#[test]
fn nesting_and_aliases_are_bounded() {
    // Each alias stands for two of the previous one, or for one more level.
    let chain = |item: fn(String) -> String| {
        let line = |level: usize| format!("a{level}: &a{level} {}\n", item(format!("*a{}", level - 1)));
        format!("a0: &a0 x\n{}", (1..=30).map(line).collect::<String>())
    };
    let nested = [
        format!("{}{}", "[".repeat(25), "]".repeat(25)),
        format!("{}1", "- ".repeat(25)),
        format!("{}x: 1{}", "{x: ".repeat(25), "}".repeat(25)),
        format!("[{}]", "1,".repeat(50_001)),
    ];
    for yaml in nested {
        let expected = "is too large or nested too deeply; expected at most 50000 values in 24 levels";
        assert_eq!(sentences(&yaml), [expected]);
    }
    for yaml in [chain(|alias| format!("[{alias}, {alias}]")), chain(|alias| format!("[{alias}]"))] {
        let said = sentences(&yaml);
        assert!(said.len() == 1 && said[0].contains("too large or too complex"), "{said:?}");
    }
}

#[test]
fn the_header_is_required() {
    let cases = [
        ("kind: GatewayConfiguration", "apiVersion: is missing; expected extender-gateway.io/v1alpha1"),
        ("apiVersion: extender-gateway.io/v1alpha1", "kind: is missing; expected GatewayConfiguration"),
        (
            "apiVersion: v1\nkind: GatewayConfiguration",
            "apiVersion: is \"v1\"; expected extender-gateway.io/v1alpha1",
        ),
        (
            "apiVersion: 1\nkind: GatewayConfiguration",
            "apiVersion: 1 without quotes is a number; expected extender-gateway.io/v1alpha1",
        ),
    ];
    for (header, expected) in cases {
        assert_eq!(sentences(&format!("{header}\n{BACKENDS}")), [expected], "{header}");
    }
}

#[test]
fn fields_of_the_gateway() {
    let cases = [
        (
            "extender: {address: localhost:8888}",
            "extender.address: \"localhost:8888\" is not an IP address and a port; \
             expected an IP address and a port such as 0.0.0.0:8888 or [::1]:8888",
        ),
        (
            "extender: {address: 8888}",
            "extender.address: 8888 without quotes is a number; \
             expected an IP address and a port such as 0.0.0.0:8888 or [::1]:8888",
        ),
        (
            "extender: {maxRequestBytes: 63Ki}",
            "extender.maxRequestBytes: \"63Ki\" is out of range; expected a size from 64Ki to 1Gi such as 128Mi",
        ),
        (
            "extender: {maxRequestBytes: 65535}",
            "extender.maxRequestBytes: 65535 is out of range; expected a size from 64Ki to 1Gi such as 128Mi",
        ),
        (
            "extender: {maxRequestBytes: 1.5Gi}",
            "extender.maxRequestBytes: \"1.5Gi\" is out of range; expected a size from 64Ki to 1Gi such as 128Mi",
        ),
        ("extender:", "extender: is empty; expected a mapping such as {address: 0.0.0.0:8888}"),
        ("extender: []", "extender: is a list; expected a mapping such as {address: 0.0.0.0:8888}"),
        (
            "metrics: {address: 10.0.0.1:8888}",
            "metrics.address: 10.0.0.1:8888 overlaps with extender.address; expected another port",
        ),
        (
            "extender: {address: '127.0.0.1:9402'}",
            "metrics.address: 0.0.0.0:9402 overlaps with extender.address; expected another port",
        ),
        (
            "timeouts: {decision: 61m}",
            "timeouts.decision: \"61m\" is out of range; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
        ),
        (
            "timeouts: {bind: 0s}",
            "timeouts.bind: \"0s\" is out of range; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(said_of_lines(lines), [expected], "{lines}");
    }
}

#[test]
fn fields_about_the_cluster_and_reasons() {
    let cases = [
        (
            "nodes: {source: watch}",
            "nodes.source: unknown value \"watch\"; expected Watch, Request, File or NamesOnly",
        ),
        ("nodes: {source: File}", "nodes.file: is missing; expected a file of nodes such as nodes.yaml"),
        ("nodes: {source: File, file: ''}", "nodes.file: is empty; expected the path of a file"),
        ("nodes: {file: x}", "nodes.file: is used only with source: File; remove it, or change source"),
        (
            "nodes: {kubeconfig: x}",
            "nodes.kubeconfig: is not supported by this version; set `cluster: {kubeconfig: FILE}` instead",
        ),
        (
            "cluster: {name: East}",
            "cluster.name: \"East\" is not a label of at most 63 lower case letters, digits and -; expected the name of a cluster such as east",
        ),
        ("cluster: {kubeconfig: ''}", "cluster.kubeconfig: is empty; expected the path of a file"),
        ("cluster: {kubeconfig: [x]}", "cluster.kubeconfig: is a list; expected the path of a file"),
        (
            "cluster: x",
            "cluster: \"x\" is a string; expected a mapping such as {name: east, kubeconfig: FILE}",
        ),
        ("pods: {source: Request}", "pods.source: unknown value \"Request\"; expected Watch or None"),
        ("pods: Watch", "pods: \"Watch\" is a string; expected a mapping such as {source: Watch}"),
        ("reasons: {prefix: none}", "reasons.prefix: unknown value \"none\"; expected Backend or None"),
        ("reasons: {changing: Kept}", "reasons.changing: unknown value \"Kept\"; expected Held or AsGiven"),
        (
            "reasons: {repeated: Error}",
            "reasons.repeated: unknown value \"Error\"; expected BackOff or AsGiven",
        ),
        (
            "exempt: [kube-system]",
            "exempt: is a list; expected a mapping such as {namespaces: [kube-system]}",
        ),
        (
            "exempt: {namespaces: kube-system}",
            "exempt.namespaces: \"kube-system\" is a string; expected a list of namespaces such as [kube-system], [] for none",
        ),
        (
            "exempt: {namespaces: [a, B]}",
            "exempt.namespaces[1]: \"B\" is not a namespace; \
             expected 1 to 63 lower case letters, digits and -, with a letter or digit at both ends",
        ),
        (
            "reasons: {prefix: false}",
            "reasons.prefix: false without quotes is a boolean; expected Backend or None",
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(said_of_lines(lines), [expected], "{lines}");
    }
}

#[test]
fn a_field_of_another_mapping_is_named_with_its_mapping() {
    for (field, place) in [
        ("weight: 2", "score"),
        ("timeout: 1s", "filter, score, preempt, bind, beforeFilter, beforeFilterNodes or beforeScore"),
        ("preemptionMayHelp: Honored", "filter"),
    ] {
        let name = field.split(':').next().unwrap();
        let said = said_of_backend(&format!("{{name: b, url: 'http://b:1', filter: {{}}, {field}}}"));
        assert_eq!(said, [format!("backends[1].{name}: unknown field; set it in {place}")]);
    }
}

#[test]
fn what_this_version_does_not_support_is_refused_by_name() {
    for (lines, name, remedy) in [
        (
            "metrics: {tls: {certFile: a, keyFile: b, clientCAFile: c, clientCertificate: Optional}}",
            "metrics.tls.clientCertificate",
            "remove it: with clientCAFile a request needs a certificate or an authorized token, and probes need neither",
        ),
        (
            "metrics: {exporter: OTLP}",
            "metrics.exporter",
            "scrape /metrics, for example with the OpenTelemetry Collector's Prometheus receiver",
        ),
        (
            "otlp: {headers: {a: b}}",
            "otlp.headers",
            "set OTEL_EXPORTER_OTLP_HEADERS, which keeps secrets out of this file",
        ),
    ] {
        let expected = format!("{name}: is not supported by this version; {remedy}");
        assert_eq!(said_of_lines(lines), [expected], "{lines}");
    }
}

#[test]
fn tokens_are_not_sent_in_the_clear() {
    let remedy = "expected None, tls with certFile and keyFile, or a loopback address";
    for (lines, said) in [
        (
            "metrics: {authorization: Kubernetes}",
            "metrics.authorization: would have tokens sent to 0.0.0.0:9402 without TLS",
        ),
        (
            "admin: {address: '[::]:9403', authorization: Kubernetes}",
            "admin.authorization: would have tokens sent to [::]:9403 without TLS",
        ),
    ] {
        assert_eq!(said_of_lines(lines), [format!("{said}; {remedy}")]);
    }
    for lines in [
        "admin: {authorization: Kubernetes}",
        "metrics: {address: '[::1]:1', authorization: Kubernetes}",
        "metrics: {tls: {certFile: a, keyFile: b}, authorization: Kubernetes}",
        "metrics: {authorization: None}",
    ] {
        assert!(parse(&format!("{HEADER}{lines}\n{BACKENDS}")).is_ok(), "{lines}");
    }
}

#[test]
fn tls_of_pages_is_checked_like_that_of_the_extender() {
    for section in ["metrics", "admin"] {
        let said =
            said_of_lines(&format!("{section}: {{tls: {{certFile: a, allowedNames: [b], caFile: c}}}}"));
        for text in [
            ".tls.keyFile: is missing; expected the key, a PEM file",
            ".tls.allowedNames: is used only with clientCAFile; add clientCAFile, or remove it",
            ".tls.caFile: unknown field; known fields: certFile, keyFile, clientCAFile, allowedNames",
        ] {
            assert!(said.contains(&format!("{section}{text}")), "{text}: {said:#?}");
        }
    }
}

#[test]
fn what_can_be_seen() {
    let ratio = "a number from 0 to 1 such as 0.01";
    let log = "a size from 1Mi to 16Gi such as 64Mi, or 0";
    let cases = [
        ("admin: {address: '0.0.0.0:8888'}", "admin.address: 0.0.0.0:8888 overlaps with extender.address; expected another port".to_owned()),
        ("admin: {address: '127.0.0.1:9402'}", "admin.address: 127.0.0.1:9402 overlaps with metrics.address; expected another port".to_owned()),
        ("traces: {ratio: 1.5}", format!("traces.ratio: 1.5 is out of range; expected {ratio}")),
        ("traces: {ratio: -1}", format!("traces.ratio: -1 is out of range; expected {ratio}")),
        ("traces: {ratio: .nan}", format!("traces.ratio: NaN is out of range; expected {ratio}")),
        ("traces: {ratio: most}", format!("traces.ratio: \"most\" is a string; expected {ratio}")),
        ("traces: {exporter: Zipkin}", "traces.exporter: unknown value \"Zipkin\"; expected None or OTLP".to_owned()),
        ("traces: {keepSlowerThan: 5}", "traces.keepSlowerThan: 5 has no unit; expected a duration from 1ms to 1h such as 200ms, 1s or 1m30s".to_owned()),
        ("otlp: {endpoint: 'collector:4317'}", "otlp.endpoint: \"collector:4317\" is not an http or https URL; expected the URL of a collector such as http://collector:4317".to_owned()),
        ("otlp: {protocol: http}", "otlp.protocol: unknown value \"http\"; expected grpc or http/protobuf".to_owned()),
        ("decisions: {maxBytes: 1}", format!("decisions.maxBytes: 1 is out of range; expected {log}")),
        ("decisions: {maxBytes: 1Ki}", format!("decisions.maxBytes: \"1Ki\" is out of range; expected {log}")),
        ("decisions: {maxBytes: much}", format!("decisions.maxBytes: \"much\" is not a size; expected {log}")),
        ("log: {format: Json}", "log.format: unknown value \"Json\"; expected Text or JSON".to_owned()),
        ("log: {level: trace}", "log.level: unknown value \"trace\"; expected error, warn, info or debug".to_owned()),
    ];
    for (lines, expected) in cases {
        assert_eq!(said_of_lines(lines), [expected], "{lines}");
    }
}

#[test]
fn tls_of_the_extender() {
    const NAMES: &str = "a list of names of certificates such as ['system:kube-scheduler']";
    let pair = "certFile: a, keyFile: b";
    let cases = [
        (
            "",
            vec![
                "tls: is empty; expected a mapping such as {certFile: tls.crt, keyFile: tls.key}".to_owned(),
            ],
        ),
        (
            "{}",
            vec![
                "tls.certFile: is missing; expected the certificate chain, a PEM file".to_owned(),
                "tls.keyFile: is missing; expected the key, a PEM file".to_owned(),
            ],
        ),
        ("{certFile: a, keyFile: ''}", vec!["tls.keyFile: is empty; expected the path of a file".to_owned()]),
        (
            &format!("{{{pair}, clientCertificate: Optional, allowedNames: [c]}}"),
            ["tls.clientCertificate", "tls.allowedNames"]
                .map(|field| {
                    format!("{field}: is used only with clientCAFile; add clientCAFile, or remove it")
                })
                .to_vec(),
        ),
        (
            &format!("{{{pair}, clientCAFile: c, clientCertificate: Never}}"),
            vec!["tls.clientCertificate: unknown value \"Never\"; expected Required or Optional".to_owned()],
        ),
        (
            &format!("{{{pair}, clientCAFile: c, allowedNames: x}}"),
            vec![format!("tls.allowedNames: \"x\" is a string; expected {NAMES}")],
        ),
        (
            &format!("{{{pair}, clientCAFile: c, allowedNames: ['', 1]}}"),
            vec![
                "tls.allowedNames[0]: is empty; expected a common name or DNS name".to_owned(),
                "tls.allowedNames[1]: 1 without quotes is a number; expected a common name or DNS name"
                    .to_owned(),
            ],
        ),
        (
            &format!("{{{pair}, caFile: c}}"),
            vec![
                "tls.caFile: unknown field; \
                known fields: certFile, keyFile, clientCAFile, clientCertificate, allowedNames"
                    .to_owned(),
            ],
        ),
    ];
    for (tls, expected) in cases {
        let expected: Vec<String> = expected.iter().map(|said| format!("extender.{said}")).collect();
        assert_eq!(said_of_lines(&format!("extender:\n  tls: {tls}")), expected, "{tls}");
    }
}

#[test]
fn paths_of_verbs() {
    let right = "the end of a path without slashes around it such as predicates/always_true";
    for path in ["''", "/filter", "filter/", "a//b", "'a b'", "ä", "a?b"] {
        let text = path.trim_matches('\'');
        assert_eq!(
            said_of_lines(&format!("extender: {{verbs: {{filter: {path}}}}}")),
            [format!("extender.verbs.filter: {text:?} is not the end of a path; expected {right}")]
        );
    }
    let cases = [
        ("{prioritize: filter}", "prioritize: \"filter\" conflicts with \"filter\", the path of filter"),
        ("{filter: a/bind}", "bind: \"bind\" conflicts with \"a/bind\", the path of filter"),
        ("{bind: v1/preempt}", "bind: \"v1/preempt\" conflicts with \"preempt\", the path of preempt"),
    ];
    for (verbs, wrong) in cases {
        let expected = format!("extender.verbs.{wrong}; expected paths that are not suffixes of each other");
        assert_eq!(said_of_lines(&format!("extender: {{verbs: {verbs}}}")), [expected], "{verbs}");
    }
    let unknown = "extender.verbs.score: unknown field; known fields: filter, prioritize, preempt, bind";
    assert_eq!(said_of_lines("extender: {verbs: {score: score}}"), [unknown]);
}

#[test]
fn names_of_fields() {
    let all = "apiVersion, kind, extender, metrics, admin, otlp, traces, decisions, log, timeouts, cluster, nodes, pods, exempt, readiness, reasons, requeue, events, binder, \
               backends";
    let cases = [
        ("extendr: {}", format!("extendr: unknown field; did you mean extender? Known fields: {all}")),
        ("Extender: {}", format!("Extender: unknown field; did you mean extender? Known fields: {all}")),
        ("tracing: {}", format!("tracing: unknown field; known fields: {all}")),
        ("events: {unscheduled: None}", "events: is a mapping; expected None or Overrides".to_owned()),
        ("odd name: 1", format!("[\"odd name\"]: unknown field; known fields: {all}")),
        ("<<: {a: b}", format!("[\"<<\"]: unknown field; known fields: {all}")),
        (
            "1: 2",
            "has a key that is not a string; expected strings as keys, in quotes if necessary".to_owned(),
        ),
        (
            "[1]: 2",
            "has a key that is not a string; expected strings as keys, in quotes if necessary".to_owned(),
        ),
        (
            "metrics: {}\nmetrics: {}",
            "metrics: is defined twice, first on line 3; remove one of them".to_owned(),
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(said_of_lines(lines), [expected], "{lines}");
    }
}

#[test]
fn a_mistake_in_an_alias_is_where_the_alias_is_used() {
    let yaml =
        format!("{HEADER}metrics: {{address: &address nowhere}}\nextender:\n  address: *address\n{BACKENDS}");
    let right = "an IP address and a port such as 0.0.0.0:8888 or [::1]:8888";
    let expected = [(3, "metrics"), (5, "extender")].map(|(line, section)| {
        format!(
            "line {line}: {section}.address: \"nowhere\" is not an IP address and a port; expected {right}"
        )
    });
    assert_eq!(said(&yaml), expected);
}

#[test]
fn long_texts_are_cut_and_line_breaks_do_not_break_a_message() {
    let said =
        said_of_backend(&format!("{{name: \"{}\\n\", url: 'http://b:1', score: {{}}}}", "B".repeat(200)));
    assert!(said[0].contains("has 201 characters"), "{said:?}");
    let said = said_of_backend("{name: \"B\\nb\", url: 'http://b:1', score: {}}");
    assert!(said[0].contains(r#""B\nb" is not a valid backend name"#), "{said:?}");
    let said = said_of_lines(&format!("reasons: {{prefix: {}}}", "ü".repeat(200)));
    assert!(said[0].contains(&format!("unknown value \"{}\"…", "ü".repeat(80))), "{said:?}");
}
