//! Properties of every text and every configuration.

use proptest::prelude::*;

use super::{EXAMPLE, HEADER, parse, right};
use crate::{
    BackendUrl, Config, DurationText, FailurePolicy, SizeText,
    values::{BODY_SIZE, parse_duration, parse_size},
};
use std::time::Duration;

/// The pieces that mutations insert: those with a meaning in the format or YAML.
const PIECES: [&str; 32] = [
    ":", ": ", "- ", "\n", "  ", "{", "}", "[", "]", ",", "#", "&a ", "*a", "!!str ", "!x ", "|\n", ">-\n",
    "? ", "'", "\"", "\\", "~", "0", "-1", "1e999", ".nan", "\u{feff}", "\u{0}", "ü", "<<: ", "---\n", "\t",
];

/// Replaces a piece of the text by another one, at positions given in thousandths of its length.
fn mutated(text: &str, at: usize, length: usize, piece: &str) -> String {
    let boundary = |wanted: usize| (wanted..=text.len()).find(|end| text.is_char_boundary(*end));
    let start = boundary(text.len() * at / 1000).unwrap_or(text.len());
    let end = boundary((start + length).min(text.len())).unwrap_or(text.len());
    format!("{}{piece}{}", &text[..start], &text[end..])
}

/// The example with some mutations.
fn mutated_example() -> impl Strategy<Value = String> {
    let mutation = (0..=1000_usize, 0..8_usize, prop::sample::select(PIECES.as_slice()));
    prop::collection::vec(mutation, 1..6).prop_map(|mutations| {
        mutations
            .into_iter()
            .fold(EXAMPLE.to_owned(), |text, (at, length, piece)| mutated(&text, at, length, piece))
    })
}

/// One of several texts.
fn one_of(texts: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::sample::select(texts).prop_map(str::to_owned)
}

/// One of several lines, or none.
fn line(lines: &'static [&'static str]) -> impl Strategy<Value = String> {
    prop::option::of(one_of(lines)).prop_map(|line| line.map_or_else(String::new, |line| format!("{line}\n")))
}

/// Valid fields of the gateway, except `binder`.
fn gateway_fields() -> impl Strategy<Value = String> {
    let lines = (
        extender(),
        (65_536..=1_073_741_824_u64, 1_000..=3_600_000_u64),
        line(&[
            "nodes: {source: Request}",
            "nodes: {source: File, file: /true}",
            "nodes: {source: NamesOnly}",
            "nodes: {source: Watch}",
        ]),
        line(&["pods: {source: Watch}", "pods: {}"]),
        line(&["cluster: {}", "cluster: {kubeconfig: 'kube config'}"]),
        line(&[
            "exempt: {namespaces: []}",
            "exempt: {namespaces: [kube-system, 'null', '12']}",
            "exempt: {}",
        ]),
        line(&[
            "reasons: {prefix: Backend, changing: AsGiven}",
            "reasons: {prefix: None, repeated: AsGiven}",
            "reasons: {changing: Held, repeated: BackOff}",
        ]),
        line(&[
            "metrics: {address: '127.0.0.1:9'}\nadmin: {address: '127.0.0.1:0'}\nlog: {format: JSON, level: debug}",
            "otlp: {endpoint: 'https://c:1/x', protocol: http/protobuf, timeout: 3s}\ndecisions: {maxBytes: 0}",
            "otlp: {protocol: grpc}\ntraces: {exporter: OTLP, ratio: 0.015625, keepSlowerThan: 1s, podAnnotation: a.b/c}",
            "traces: {ratio: 1, exporter: None}\ndecisions: {maxBytes: 1234567}",
        ]),
    );
    lines.prop_map(|(extender, (bytes, timeout), nodes, pods, cluster, exempt, reasons, seen)| {
        format!(
            "extender: {{maxRequestBytes: {bytes}{extender}}}\n\
             timeouts: {{decision: {timeout}ms, bind: {timeout}ms}}\n{nodes}{pods}{cluster}{exempt}{reasons}{seen}"
        )
    })
}

/// Further fields of `extender`.
fn extender() -> impl Strategy<Value = String> {
    let address = one_of(&["", ", address: 0.0.0.0:1", ", address: 127.0.0.1:0", ", address: '[::1]:3'"]);
    let verbs = one_of(&[
        "",
        ", verbs: {}",
        ", verbs: {filter: predicates/always_true, prioritize: '0', preempt: 'true', bind: a.b}",
    ]);
    let tls = one_of(&[
        "",
        ", tls: {certFile: a.crt, keyFile: /b.key}",
        ", tls: {certFile: a, keyFile: b, clientCAFile: 'c: d'}",
        ", tls: {certFile: a, keyFile: b, clientCAFile: c, clientCertificate: Optional, allowedNames: ['system:x', 'ü', '1']}",
    ]);
    (address, verbs, tls).prop_map(|(address, verbs, tls)| format!("{address}{verbs}{tls}"))
}

/// Valid fields of a backend, except its name.
fn backend_fields() -> impl Strategy<Value = String> {
    let reached = one_of(&[
        "url: 'http://h.b_c.d:1'",
        "url: 'http://[::1]:65535', mode: Shadow",
        "url: 'http://10.0.0.1:80', mode: Disabled",
        "url: 'https://a:443', tls: {caFile: ca.crt}",
        "url: 'https://a:443', mode: Enforce, canary: {percent: 10}, maxRejectShare: {share: 0.9, window: 1m, onExcess: Shadow}, pureAnswers: AskedEachTime, tls: {caFile: ../ca.crt, certFile: c, keyFile: k, serverName: '::1'}",
    ]);
    let args =
        one_of(&["", ", args: {}", r#", args: {a: ["\u0000\u0085\t\"'#: ", "", {b: 1.0, c: -7}], "": ~}"#]);
    (reached, args, interest(), verbs())
        .prop_map(|(reached, args, interest, verbs)| format!("{reached}{args}{interest}{verbs}"))
}

/// `match` or nothing.
fn interest() -> impl Strategy<Value = String> {
    let resources = one_of(&[
        "",
        "managedResources: [], ",
        "managedResources: [{name: example.com/gpu}, {name: 1a.b/2, ignoredByScheduler: true}], ",
    ]);
    let namespaces = one_of(&[
        "",
        "namespaces: [a, 'true', '0'], ",
        "excludedNamespaces: [], ",
        "excludedNamespaces: [b], ",
    ]);
    let labels = one_of(&["", "matchLabels: {a: '', b.c/D: 'null', e: '1.0'}, ", "matchLabels: {}, "]);
    let expressions = one_of(&[
        "",
        "matchExpressions: [{key: a, operator: In, values: [b, 'false', '']}, {key: '1', operator: Exists}]",
        "matchExpressions: [{key: a/b, operator: NotIn, values: [c]}, {key: d, operator: DoesNotExist, values: []}]",
    ]);
    let fields = (resources, namespaces, labels, expressions).prop_map(
        |(resources, namespaces, labels, expressions)| {
            format!(", match: {{{resources}{namespaces}podSelector: {{{labels}{expressions}}}}}")
        },
    );
    prop::option::of(fields).prop_map(Option::unwrap_or_default)
}

/// The verbs of a backend without `bind`, at least one.
fn verbs() -> impl Strategy<Value = String> {
    let filter = one_of(&[
        ", filter: {}",
        ", filter: {failurePolicy: Ignore}",
        ", filter: {timeout: 1s, preemptionMayHelp: Honored}",
    ]);
    let score = one_of(&[
        "",
        ", score: {}",
        ", score: {normalize: None, weight: 1000000}",
        ", score: {normalize: MinMax, reversed: true, timeout: 7ms}",
        ", score: {normalize: Range, failurePolicy: Ignore}",
        ", score: {normalize: Max, reversed: false}",
    ]);
    let preempt = one_of(&[
        "",
        ", preempt: {}",
        ", preempt: {timeout: 3ms, failurePolicy: Ignore, addedVictims: Refused}",
    ]);
    let hooks = one_of(&[
        "",
        ", beforeFilter: {}",
        ", beforeFilterNodes: {timeout: 3ms, failurePolicy: Ignore}, beforeScore: {failurePolicy: Ignore}",
    ]);
    (filter, score, preempt, hooks)
        .prop_map(|(filter, score, preempt, hooks)| format!("{filter}{score}{preempt}{hooks}"))
}

/// The binder, and the first backend's settings for it.
fn binder() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(
        &[
            ("", ""),
            ("binder: None\n", ""),
            ("binder: BuiltIn\n", ""),
            ("binder: BuiltIn\n", ", bind: {}"),
            ("binder: '0'\n", ", bind: {timeout: 9ms, failurePolicy: Next}"),
        ][..],
    )
}

fn right_text() -> impl Strategy<Value = String> {
    let backends = prop::collection::vec(backend_fields(), 1..6);
    (gateway_fields(), binder(), backends).prop_map(|(gateway, (binder, bind), backends)| {
        let backend = |(position, fields): (usize, &String)| {
            let bind = if position == 0 { bind } else { "" };
            format!("- {{name: '{position}', {fields}{bind}}}\n")
        };
        let backends: String = backends.iter().enumerate().map(backend).collect();
        let allowed = "extender: {allowUnauthenticatedBind: true";
        let gateway = if binder.is_empty() {
            gateway
        } else if gateway.contains("extender: {") {
            gateway.replace("extender: {", &format!("{allowed}, "))
        } else {
            format!("{gateway}{allowed}}}\n")
        };
        format!("{HEADER}{gateway}{binder}backends:\n{backends}")
    })
}

/// The configuration with its backends in their effective order.
fn reordered(config: &Config) -> Config {
    let order = config.effective_order();
    let backends = order.iter().map(|position| config.backends[*position].clone()).collect();
    Config { backends, ..config.clone() }
}

proptest! {
    #[test]
    fn no_text_is_a_panic_and_every_refusal_says_why(text in mutated_example()) {
        if let Err(errors) = parse(&text) {
            prop_assert!(!errors.mistakes().is_empty());
            let lines: Vec<_> = errors.mistakes().iter().map(super::Mistake::line).collect();
            prop_assert!(lines.is_sorted(), "{errors}");
        }
    }

    #[test]
    fn no_text_at_all_is_a_panic(text in "[ -~\n]{0,64}|\\PC{0,32}") {
        let _ = parse(&text);
    }

    #[test]
    fn what_is_written_out_means_the_same(text in right_text()) {
        let config = right(&text);
        let written = config.effective_yaml();
        prop_assert_eq!(right(&written), reordered(&config), "{}", written);
    }

    #[test]
    fn the_effective_order_is_two_groups_in_the_order_of_the_file(text in right_text()) {
        let config = right(&text);
        let fails = |position: &usize| {
            let filter = config.backends[*position].filter.as_ref();
            filter.is_some_and(|filter| filter.failure_policy == FailurePolicy::Fail)
        };
        let (first, second): (Vec<_>, Vec<_>) = (0..config.backends.len()).partition(fails);
        prop_assert_eq!(config.effective_order(), [first, second].concat());
    }

    #[test]
    fn durations_are_written_as_they_are_read(milliseconds in 1..=3_600_000_u64) {
        let duration = Duration::from_millis(milliseconds);
        prop_assert_eq!(parse_duration(&DurationText(duration).to_string()), Ok(duration));
    }

    #[test]
    fn sizes_are_written_as_they_are_read(bytes in 65_536..=1_073_741_824_usize) {
        prop_assert_eq!(parse_size(BODY_SIZE, &SizeText(bytes).to_string()), Ok(bytes));
    }

    #[test]
    fn urls_are_written_as_they_are_read(text in "https?://([a-z0-9._-]{1,12}|\\[[0-9a-f:]{2,9}\\]|[0-9.]{1,15}):[0-9]{1,6}") {
        if let Ok(url) = BackendUrl::new(&text) {
            prop_assert_eq!(BackendUrl::new(&url.to_string()), Ok(url));
        }
    }
}
