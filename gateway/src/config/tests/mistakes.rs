//! Wrong configurations and all that is said about them.

use super::{BACKENDS, HEADER, parse};

/// What is said about a text, one mistake a line.
fn said(yaml: &str) -> Vec<String> {
    let errors = parse(yaml).expect_err(yaml);
    errors.mistakes().iter().map(ToString::to_string).collect()
}

/// What is said about a right configuration with these lines in it, without the line's number.
fn said_of_lines(lines: &str) -> Vec<String> {
    sentences(&format!("{HEADER}{lines}\n{BACKENDS}"))
}

/// What is said about a right configuration with this as its second backend, without the line's number.
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
timeouts: {decision: 1, bind: 10s}
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
        "line 2: kind: is \"Gateway\"; GatewayConfiguration",
        "line 3: timeouts.decision: 1 has no unit; a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
        "line 3: timeouts.bind: is not supported by this version; leave it out",
        "line 6: backends[0].url: TLS to backends is not supported by this version; \
         http://HOST:PORT such as http://rack-drain.policies.svc:9000",
        "line 7: backends[0].filter.failurePolicy: \"fail\" is not known; Fail or Ignore",
        "line 8: backends[1].url: is missing; http://HOST:PORT such as http://rack-drain.policies.svc:9000",
        "line 8: backends[1].name: \"rack-drain\" is already the name of backends[0]; a name of its own",
        "line 9: backends[1].fliter: is not a known field; did you mean filter? \
         Known are name, url, args, mode, filter, score",
        "line 11: backends[1].score.weight: 0 is out of range; a whole number from 1 to 1000000",
        "line 12: backends[1].score.timeout: 5 has no unit; a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
    ];
    assert_eq!(said(yaml), expected);
}

#[test]
fn documents_that_are_no_configuration() {
    let cases = [
        (
            "",
            "line 1: the file is empty; apiVersion: extender-gateway.io/v1alpha1, kind: GatewayConfiguration and backends",
        ),
        ("- 1", "line 1: is a list; a mapping with apiVersion, kind and backends"),
        ("x", "line 1: \"x\" is text; a mapping with apiVersion, kind and backends"),
        (
            "a: 1\nb: [",
            "line 2: is not YAML: unclosed bracket '[' at line 2, column 4; one document in correct YAML",
        ),
        ("a: 'x", "line 1: is not YAML: unclosed quote at line 1, column 4; one document in correct YAML"),
        (
            "a: *b",
            "line 1: is not YAML: reference to unknown value at line 1, column 4; one document in correct YAML",
        ),
        (
            "a: !new 1",
            "line 1: is not YAML: unsupported tag `!new` at line 1, column 9; one document in correct YAML",
        ),
        (
            "a: 1\n---\nb: 2",
            "line 3: is not YAML: only single YAML document expected but multiple found at line 3, column 1; \
             one document in correct YAML",
        ),
    ];
    for (yaml, expected) in cases {
        assert_eq!(said(yaml), [expected], "{yaml:?}");
    }
}

#[test]
fn nesting_and_aliases_are_bounded() {
    // Each alias stands for two of the one before it, or for a level more.
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
        let expected = "is too large or nested too deeply; at most 50000 values in 24 levels";
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
        ("kind: GatewayConfiguration", "apiVersion: is missing; extender-gateway.io/v1alpha1"),
        ("apiVersion: extender-gateway.io/v1alpha1", "kind: is missing; GatewayConfiguration"),
        ("apiVersion: v1\nkind: GatewayConfiguration", "apiVersion: is \"v1\"; extender-gateway.io/v1alpha1"),
        (
            "apiVersion: 1\nkind: GatewayConfiguration",
            "apiVersion: 1 without quotes is a number; extender-gateway.io/v1alpha1",
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
             an IP address and a port such as 0.0.0.0:8888 or [::1]:8888",
        ),
        (
            "extender: {address: 8888}",
            "extender.address: 8888 without quotes is a number; \
             an IP address and a port such as 0.0.0.0:8888 or [::1]:8888",
        ),
        (
            "extender: {maxRequestBytes: 63Ki}",
            "extender.maxRequestBytes: \"63Ki\" is out of range; a size from 64Ki to 1Gi such as 128Mi",
        ),
        (
            "extender: {maxRequestBytes: 65535}",
            "extender.maxRequestBytes: 65535 is out of range; a size from 64Ki to 1Gi such as 128Mi",
        ),
        (
            "extender: {maxRequestBytes: 1.5Gi}",
            "extender.maxRequestBytes: \"1.5Gi\" is not a size; a size from 64Ki to 1Gi such as 128Mi",
        ),
        ("extender:", "extender: is empty; a mapping such as {address: 0.0.0.0:8888}"),
        ("extender: []", "extender: is a list; a mapping such as {address: 0.0.0.0:8888}"),
        (
            "metrics: {address: 10.0.0.1:8888}",
            "metrics.address: 10.0.0.1:8888 is where extender listens; a port of its own",
        ),
        (
            "extender: {address: '127.0.0.1:9402'}",
            "metrics.address: 0.0.0.0:9402 is where extender listens; a port of its own",
        ),
        (
            "timeouts: {decision: 61m}",
            "timeouts.decision: \"61m\" is out of range; a duration from 1ms to 1h such as 200ms, 1s or 1m30s",
        ),
        ("nodes: {source: watch}", "nodes.source: \"watch\" is not known; Watch, Request, File or NamesOnly"),
        ("nodes: {source: File}", "nodes.file: is missing; a file of nodes such as nodes.yaml"),
        ("nodes: {source: File, file: ''}", "nodes.file: is empty; the path of a file"),
        ("nodes: {file: x}", "nodes.file: is only read with source: File; leave it out, or change source"),
        (
            "nodes: {source: Request, kubeconfig: x}",
            "nodes.kubeconfig: is only read with source: Watch; leave it out, or change source",
        ),
        ("reasons: {prefix: none}", "reasons.prefix: \"none\" is not known; Backend or None"),
        ("reasons: {prefix: false}", "reasons.prefix: false without quotes is a boolean; Backend or None"),
    ];
    for (lines, expected) in cases {
        assert_eq!(said_of_lines(lines), [expected], "{lines}");
    }
}

#[test]
fn what_this_version_does_not_support_is_refused_by_name() {
    let cases = [
        (
            "extender: {tls: {certFile: a}}",
            "extender.tls",
            "leave it out, and use `enableHTTPS: false` in kube-scheduler's configuration",
        ),
        ("extender: {http2: true}", "extender.http2", "leave it out: kube-scheduler is served over HTTP/1.1"),
        ("metrics: {tls: {}}", "metrics.tls", "leave it out"),
        ("admin: {address: '127.0.0.1:9403'}", "admin", "leave it out"),
        ("timeouts: {bind: 10s}", "timeouts.bind", "leave it out"),
        ("exempt: {}", "exempt", "leave it out: backends are asked about the pods of every namespace"),
        ("binder: BuiltIn", "binder: \"BuiltIn\"", "None, or leave it out"),
        ("binder: a", "binder: \"a\"", "None, or leave it out"),
    ];
    for (lines, name, remedy) in cases {
        let separator = if name.contains(": ") { " " } else { ": " };
        let expected = format!("{name}{separator}is not supported by this version; {remedy}");
        assert_eq!(said_of_lines(lines), [expected], "{lines}");
    }
}

#[test]
fn unsupported_fields_of_backends_are_refused_by_name() {
    let cases = [
        ("tls: {}", "tls: is not supported by this version; leave it out: backends are reached without TLS"),
        (
            "match: {}",
            "match: is not supported by this version; leave it out: every backend is asked about every pod",
        ),
        ("preempt: {}", "preempt: is not supported by this version; leave it out"),
        ("bind: {}", "bind: is not supported by this version; leave it out"),
        ("mode: Shadow", "mode: Shadow is not supported by this version; Enforce, or leave it out"),
        ("mode: Disabled", "mode: Disabled is not supported by this version; Enforce, or leave it out"),
        ("mode: enforce", "mode: \"enforce\" is not known; Enforce, or leave it out"),
        (
            "score: {failurePolicy: Fail}",
            "score.failurePolicy: \"Fail\" is not supported by this version; \
             Ignore, or leave it out: a failed score never fails the call",
        ),
    ];
    for (field, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', filter: {{}}, {field}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].{expected}")], "{field}");
    }
}

#[test]
fn names_of_fields() {
    let all = "apiVersion, kind, extender, metrics, timeouts, nodes, reasons, binder, backends";
    let cases = [
        ("extendr: {}", format!("extendr: is not a known field; did you mean extender? Known are {all}")),
        ("Extender: {}", format!("Extender: is not a known field; did you mean extender? Known are {all}")),
        ("tracing: {}", format!("tracing: is not a known field; known are {all}")),
        ("odd name: 1", format!("[\"odd name\"]: is not a known field; known are {all}")),
        ("<<: {a: b}", format!("[\"<<\"]: is not a known field; known are {all}")),
        ("1: 2", "has a key that is not text; keys that are text, in quotes if need be".to_owned()),
        ("[1]: 2", "has a key that is not text; keys that are text, in quotes if need be".to_owned()),
        ("metrics: {}\nmetrics: {}", "metrics: is given again, before on line 3; give it once".to_owned()),
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
        format!("line {line}: {section}.address: \"nowhere\" is not an IP address and a port; {right}")
    });
    assert_eq!(said(&yaml), expected);
}

#[test]
fn lists_of_backends() {
    let right = "a list with at least one backend such as \
                 {name: rack-drain, url: http://rack-drain:9000, filter: {}}";
    let cases = [
        ("", "is missing"),
        ("backends:", "is empty"),
        ("backends: []", "is an empty list"),
        ("backends: {}", "is a mapping"),
    ];
    for (backends, wrong) in cases {
        assert_eq!(sentences(&format!("{HEADER}{backends}")), [format!("backends: {wrong}; {right}")]);
    }
}

#[test]
fn backends() {
    const NAME: &str = "1 to 63 lower case letters, digits and -, with a letter or digit at both ends";
    const URL: &str = "http://HOST:PORT such as http://rack-drain.policies.svc:9000";
    let cases: [(&str, &[&str]); 8] = [
        ("b", &["backends[1]: \"b\" is text; a mapping with name, url and filter or score"]),
        (
            "{}",
            &[
                &format!("backends[1].name: is missing; {NAME}"),
                &format!("backends[1].url: is missing; {URL}"),
                "backends[1]: would never be asked; add `filter: {}` or `score: {}`",
            ],
        ),
        (
            "{name: a, url: 'http://b:1', score: {}}",
            &["backends[1].name: \"a\" is already the name of backends[0]; a name of its own"],
        ),
        (
            "{name: B, url: 'http://b:1', score: {}}",
            &[&format!("backends[1].name: \"B\" is not a name for a backend; {NAME}")],
        ),
        (
            "{name: 12, url: 'http://b:1', score: {}}",
            &[&format!("backends[1].name: 12 without quotes is a number; {NAME}")],
        ),
        ("{name: b, url: 'http://b', score: {}}", &[&format!("backends[1].url: \"b\" has no port; {URL}")]),
        (
            "{name: b, url: 'http://b:1'}",
            &["backends[1]: would never be asked; add `filter: {}` or `score: {}`"],
        ),
        (
            "{name: b, url: 'http://b:1', score: {}, weight: 2}",
            &["backends[1].weight: is not a known field; known are name, url, args, mode, filter, score"],
        ),
    ];
    for (backend, expected) in cases {
        assert_eq!(said_of_backend(backend), expected, "{backend}");
    }
}

#[test]
fn settings_of_verbs() {
    const WEIGHT: &str = "a whole number from 1 to 1000000";
    let cases = [
        ("filter: ", "filter: is empty; a mapping such as {timeout: 200ms}, {} for the defaults".to_owned()),
        ("filter: true", "filter: true is a boolean; a mapping such as {timeout: 200ms}, {} for the defaults".to_owned()),
        (
            "filter: {timeout: 1s1ms}",
            "filter.timeout: 1s1ms is longer than timeouts.decision, 1s; at most 1s, or a longer timeouts.decision".to_owned(),
        ),
        ("filter: {preemptionMayHelp: true}", "filter.preemptionMayHelp: true without quotes is a boolean; Ignored or Honored".to_owned()),
        ("filter: {weight: 2}", "filter.weight: is not a known field; known are timeout, failurePolicy, preemptionMayHelp".to_owned()),
        ("score: {weight: 0}", format!("score.weight: 0 is out of range; {WEIGHT}")),
        ("score: {weight: 1000001}", format!("score.weight: 1000001 is out of range; {WEIGHT}")),
        ("score: {weight: -1}", format!("score.weight: -1 is out of range; {WEIGHT}")),
        ("score: {weight: 2.0}", format!("score.weight: 2.0 is not a whole number; {WEIGHT}")),
        ("score: {weight: two}", format!("score.weight: \"two\" is text; {WEIGHT}")),
        ("score: {normalize: minmax}", "score.normalize: \"minmax\" is not known; None, Range, Max or MinMax".to_owned()),
        ("score: {reversed: yes}", "score.reversed: \"yes\" is text; true or false".to_owned()),
        (
            "score: {normalize: None, reversed: true}",
            "score.reversed: does not go with normalize: None; another normalize, or false".to_owned(),
        ),
    ];
    for (settings, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', {settings}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].{expected}")], "{settings}");
    }
}

#[test]
fn arguments_that_are_no_json_object() {
    let number = "is a number that JSON does not have; a finite number, or text in quotes";
    let cases = [
        ("[1]", vec![": is a list; a mapping such as {label: topology/rack}".to_owned()]),
        ("~", vec![": is empty; a mapping such as {label: topology/rack}".to_owned()]),
        ("{a: .inf, b: [.nan]}", vec![format!(".a: {number}"), format!(".b[0]: {number}")]),
        ("{a: 1, a: 2}", vec![".a: is given again, before on line 5; give it once".to_owned()]),
        // Keys that are numbers, or look like them, must not hide one that is repeated.
        (
            "{'1': 0, 2: 0, 'b.c': {d: 0, d: 0}}",
            vec![
                ": has a key that is not text; keys that are text, in quotes if need be".to_owned(),
                "[\"b.c\"].d: is given again, before on line 5; give it once".to_owned(),
            ],
        ),
        ("{'1': 0, '1': 0}", vec![".1: is given again, before on line 5; give it once".to_owned()]),
    ];
    for (args, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', score: {{}}, args: {args}}}");
        let expected: Vec<String> = expected.iter().map(|said| format!("backends[1].args{said}")).collect();
        assert_eq!(said_of_backend(&backend), expected, "{args}");
    }
}

#[test]
fn long_texts_are_cut_and_line_breaks_do_not_break_a_message() {
    let said =
        said_of_backend(&format!("{{name: \"{}\\n\", url: 'http://b:1', score: {{}}}}", "B".repeat(200)));
    assert!(said[0].contains("has 201 characters"), "{said:?}");
    let said = said_of_backend("{name: \"B\\nb\", url: 'http://b:1', score: {}}");
    assert!(said[0].contains(r#""B\nb" is not a name"#), "{said:?}");
    let said = said_of_lines(&format!("reasons: {{prefix: {}}}", "ü".repeat(200)));
    assert!(said[0].contains(&format!("\"{}\"… is not known", "ü".repeat(80))), "{said:?}");
}
