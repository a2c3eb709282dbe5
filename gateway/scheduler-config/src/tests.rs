//! kube-scheduler's configuration for various configurations of the gateway.

use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::{reach::ReachError, *};

/// A configuration with these lines, and these backends as a list on one line.
fn config(lines: &str, backends: &str) -> Config {
    let header = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n";
    let allowed = "extender: {allowUnauthenticatedBind: true";
    let lines = if lines.contains("extender: {") {
        lines.replace("extender: {", &format!("{allowed}, "))
    } else {
        format!("{allowed}}}\n{lines}")
    };
    let yaml = format!("{header}{lines}\nbackends: [{backends}]\n");
    Config::parse(&yaml, Path::new("/etc")).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"))
}

/// A backend with these settings.
fn backend(name: &str, settings: &str) -> String {
    format!("{{name: {name}, url: 'http://{name}:1', {settings}}}")
}

/// A backend that binds pods with these resources, each followed by ` ignored` or not.
fn binder(name: &str, resources: &[&str]) -> String {
    backend(name, &format!("bind: {{}}, match: {{managedResources: [{}]}}", managed(resources)))
}

/// A backend that filters pods with these resources.
fn filter(name: &str, resources: &[&str]) -> String {
    backend(name, &format!("filter: {{}}, match: {{managedResources: [{}]}}", managed(resources)))
}

fn managed(resources: &[&str]) -> String {
    let resource = |text: &&str| match text.strip_suffix(" ignored") {
        Some(name) => format!("{{name: {name}, ignoredByScheduler: true}}"),
        None => format!("{{name: {text}}}"),
    };
    resources.iter().map(resource).collect::<Vec<_>>().join(", ")
}

fn reach(config: &Config) -> Reach {
    Reach::new(config, None, TlsFiles::default()).unwrap()
}

fn printed(config: &Config, scope: Scope) -> String {
    Extenders { entries: &entries_of(config, scope), reach: &reach(config) }.to_string()
}

/// The bind entry's resources and those of the entry without verbs; `None` for no such entry.
fn places(config: &Config) -> [Option<Vec<String>>; 2] {
    let written = |resource: &ManagedResource| {
        let ignored = if resource.ignored_by_scheduler { " ignored" } else { "" };
        format!("{}{ignored}", resource.name)
    };
    let Entries(entries) = entries(config);
    let resources = |is_wanted: fn(&ExtenderEntry) -> bool| {
        let entry = entries.iter().find(|entry| is_wanted(entry))?;
        Some(entry.managed_resources.iter().map(written).collect())
    };
    [resources(|entry| entry.bind_verb.is_some()), resources(|entry| entry.http_timeout.is_none())]
}

#[test]
fn one_entry_has_all_verbs_of_a_decision_whatever_backends_do() {
    let expected = "\
# urlPrefix assumes kube-scheduler on the gateway's machine; change it with --url.
extenders:
- urlPrefix: \"http://127.0.0.1:8888\"
  filterVerb: filter
  prioritizeVerb: prioritize
  weight: 1  # the gateway has applied the weights
  preemptVerb: preempt
  nodeCacheCapable: true
  httpTimeout: 3s
";
    for settings in ["filter: {}", "score: {}", "preempt: {}", "filter: {}, mode: Disabled"] {
        assert_eq!(printed(&config("", &backend("a", settings)), Scope::Lasting), expected, "{settings}");
    }
}

#[test]
fn the_least_has_what_backends_are_asked_for_today() {
    let cases = [
        ("filter: {}", "  filterVerb: filter\n"),
        (
            "score: {}, mode: Shadow",
            "  prioritizeVerb: prioritize\n  weight: 1  # the gateway has applied the weights\n",
        ),
        ("preempt: {}", "  preemptVerb: preempt\n"),
    ];
    for (settings, verb) in cases {
        let printed = printed(&config("", &backend("a", settings)), Scope::Minimal);
        let (_, entry) = printed.split_once("8888\"\n").unwrap();
        assert_eq!(entry, format!("{verb}  nodeCacheCapable: true\n  httpTimeout: 3s\n"), "{settings}");
    }
    let disabled = config("", &backend("a", "filter: {}, mode: Disabled"));
    assert_eq!(printed(&disabled, Scope::Minimal), "extenders: []  # no backend has a verb\n");
    let only_binds = config("binder: BuiltIn", &backend("a", "bind: {}"));
    let [entry] = &entries_of(&only_binds, Scope::Minimal).0[..] else { panic!("one") };
    let others = [&entry.filter_verb, &entry.prioritize_verb, &entry.preempt_verb];
    assert_eq!((entry.bind_verb.as_deref(), others), (Some("bind"), [&None; 3]));
}

#[test]
fn entries_follow_the_settings_of_the_gateway() {
    let lines = "extender: {address: '10.0.0.1:80', verbs: {filter: a/b, bind: c}}\n\
                 timeouts: {decision: 1500ms, bind: 20s}\nnodes: {source: Request}\nbinder: BuiltIn";
    let expected = "\
# urlPrefix assumes kube-scheduler on the gateway's machine; change it with --url.
extenders:
- urlPrefix: \"http://10.0.0.1:80\"
  filterVerb: a/b
  prioritizeVerb: prioritize
  weight: 1  # the gateway has applied the weights
  preemptVerb: preempt
  nodeCacheCapable: false
  httpTimeout: 6s500ms
- urlPrefix: \"http://10.0.0.1:80\"
  bindVerb: c
  httpTimeout: 22s
";
    assert_eq!(printed(&config(lines, &backend("a", "filter: {}")), Scope::Lasting), expected);
}

#[test]
fn every_resource_has_one_place() {
    let some = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
    let cases = [
        ("None", vec![filter("a", &["x.y/a"])], [None, None]),
        ("None", vec![filter("a", &["x.y/a", "x.y/b ignored"])], [None, some(&["x.y/b ignored"])]),
        // One of them declares that it is not counted: then it is not.
        (
            "None",
            vec![filter("a", &["x.y/a"]), filter("b", &["x.y/a ignored"])],
            [None, some(&["x.y/a ignored"])],
        ),
        // The gateway binds every pod.
        ("BuiltIn", vec![binder("a", &["x.y/a ignored"])], [some(&[]), some(&["x.y/a ignored"])]),
        // Only the backend binds, and only such pods.
        ("a", vec![binder("a", &["x.y/b", "x.y/a ignored"])], [some(&["x.y/a ignored", "x.y/b"]), None]),
        (
            "a",
            vec![
                binder("a", &["x.y/a"]),
                binder("b", &["x.y/b"]),
                filter("c", &["x.y/a ignored", "x.y/c ignored"]),
            ],
            [some(&["x.y/a ignored", "x.y/b"]), some(&["x.y/c ignored"])],
        ),
        // Another backend binds any pod.
        ("a", vec![binder("a", &["x.y/a"]), backend("b", "bind: {}")], [some(&[]), None]),
    ];
    for (who, backends, expected) in cases {
        let config = config(&format!("binder: {who}"), &backends.join(", "));
        assert_eq!(places(&config), expected, "{who} {backends:?}");
    }
}

#[test]
fn resources_are_printed_with_their_entries() {
    let backends = [binder("a", &["x.y/a", "x.y/b ignored"]), filter("c", &["x.y/c ignored"])].join(", ");
    let printed = printed(&config("binder: a", &backends), Scope::Minimal);
    let expected = "\
- urlPrefix: \"http://127.0.0.1:8888\"
  bindVerb: bind
  httpTimeout: 12s
  managedResources:
  - name: x.y/a
  - name: x.y/b
    ignoredByScheduler: true
- urlPrefix: \"http://127.0.0.1:8888\"
  # Never called: lists resources that kube-scheduler ignores.
  managedResources:
  - name: x.y/c
    ignoredByScheduler: true
";
    assert!(printed.ends_with(expected), "{printed}");
}

#[test]
fn tls_is_as_the_gateway_speaks_it() {
    let lines = |clients| format!("extender: {{tls: {{certFile: a, keyFile: b{clients}}}}}");
    let server = config(&lines(""), &backend("a", "filter: {}"));
    let expected = "\
  enableHTTPS: true
  tlsConfig:
    caFile: /FILL/IN/ca.crt  # fill in: the CA of extender.tls.certFile, --ca-file
";
    let text = printed(&server, Scope::Lasting);
    assert!(text.contains("- urlPrefix: \"https://127.0.0.1:8888\"\n") && text.ends_with(expected), "{text}");
    assert!(reach(&server).has_placeholders());

    let mutual = config(&lines(", clientCAFile: c"), &backend("a", "filter: {}"));
    let text = printed(&mutual, Scope::Lasting);
    assert!(
        text.contains("    certFile: /FILL/IN/tls.crt  # fill in") && text.contains("    keyFile: /FILL"),
        "{text}"
    );

    let lines_of = lines(", clientCAFile: c, clientCertificate: Optional");
    let optional = printed(&config(&lines_of, &backend("a", "filter: {}")), Scope::Lasting);
    assert!(!optional.contains("/FILL/IN/tls"), "{optional}");

    let [ca, cert, key] = ["ca.crt", "c.crt", "c d"].map(|file| Some(file.to_owned()));
    let files = TlsFiles { ca, cert, key };
    let reach = Reach::new(&mutual, Some("https://gateway:1/a/"), files).unwrap();
    let text = Extenders { entries: &entries(&mutual), reach: &reach }.to_string();
    let expected = "  tlsConfig:\n    caFile: ca.crt\n    certFile: c.crt\n    keyFile: \"c d\"\n";
    assert!(
        text.starts_with("extenders:\n- urlPrefix: \"https://gateway:1/a\"\n") && text.ends_with(expected),
        "{text}"
    );
    assert!(!reach.has_placeholders());
}

#[test]
fn urls_that_do_not_do() {
    let plain = config("", &backend("a", "filter: {}"));
    let tls = config("extender: {tls: {certFile: a, keyFile: b}}", &backend("a", "filter: {}"));
    let free = config("extender: {address: '127.0.0.1:0'}", &backend("a", "filter: {}"));
    let ca = || TlsFiles { ca: Some("ca.crt".to_owned()), ..TlsFiles::default() };
    let none = TlsFiles::default;
    for text in [
        "",
        "gateway:8888",
        "gateway",
        "ftp://a:1",
        "http://",
        "http://a:1?b",
        "http://a:1/#b",
        "http://a b:1",
    ] {
        assert_eq!(Reach::new(&plain, Some(text), none()), Err(ReachError::Url(text.to_owned())));
    }
    assert_eq!(Reach::new(&free, None, none()), Err(ReachError::NoPort));
    assert!(Reach::new(&free, Some("http://a:1"), none()).is_ok());
    for text in ["http://a:1", "HTTP://a:1"] {
        assert_eq!(Reach::new(&tls, Some(text), none()), Err(ReachError::PlainUrl));
    }
    assert_eq!(Reach::new(&tls, Some("HTTPS://A:1/"), none()).unwrap().url, "https://A:1");
    assert_eq!(Reach::new(&plain, None, ca()), Err(ReachError::NoTls));
    // A proxy in front of the gateway terminates TLS.
    assert!(Reach::new(&plain, Some("https://a:1"), ca()).is_ok());
}

#[test]
fn addresses_are_reached_from_the_same_machine() {
    let cases = [
        ("0.0.0.0:1", "http://127.0.0.1:1"),
        ("[::]:2", "http://[::1]:2"),
        ("10.0.0.1:3", "http://10.0.0.1:3"),
        ("[fd00::1]:4", "http://[fd00::1]:4"),
    ];
    for (address, url) in cases {
        let config = config(&format!("extender: {{address: '{address}'}}"), &backend("a", "filter: {}"));
        assert_eq!(reach(&config).url, url);
    }
}

#[test]
fn decisions_alone_can_be_ignorable() {
    let config = config("binder: BuiltIn", &backend("a", "filter: {}"));
    let entries = entries(&config).ignorable();
    let text = Extenders { entries: &entries, reach: &reach(&config) }.to_string();
    let (decisions, bind) = text.split_once("  bindVerb").unwrap();
    assert!(decisions.contains("  httpTimeout: 3s\n  ignorable: true  # "), "{text}");
    assert!(!bind.contains("ignorable"), "{text}");
    let json = policy_json(&entries, &reach(&config)).unwrap();
    assert_eq!(json.matches("\"ignorable\": true").count(), 1, "{json}");
}

#[test]
fn the_legacy_file_says_the_same_in_its_own_words() {
    let lines = "extender: {tls: {certFile: a, keyFile: b, clientCAFile: c}}\nbinder: a";
    let backends = [binder("a", &["x.y/a"]), filter("c", &["x.y/c ignored"])].join(", ");
    let config = config(lines, &backends);
    let text = policy_json(&entries(&config), &reach(&config)).unwrap();
    let tls =
        json!({"caFile": "/FILL/IN/ca.crt", "certFile": "/FILL/IN/tls.crt", "keyFile": "/FILL/IN/tls.key"});
    let entry = |fields: serde_json::Value| {
        let mut entry = json!({"urlPrefix": "https://127.0.0.1:8888", "enableHttps": true, "tlsConfig": tls});
        entry.as_object_mut().unwrap().append(&mut fields.as_object().unwrap().clone());
        entry
    };
    let expected = json!({"kind": "Policy", "apiVersion": "v1", "extenders": [
        entry(json!({
            "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1, "preemptVerb": "preempt",
            "nodeCacheCapable": true, "httpTimeout": 3_000_000_000_u64,
        })),
        entry(json!({
            "bindVerb": "bind", "httpTimeout": 12_000_000_000_u64,
            "managedResources": [{"name": "x.y/a", "ignoredByScheduler": false}],
        })),
        entry(json!({"managedResources": [{"name": "x.y/c", "ignoredByScheduler": true}]})),
    ]});
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), expected);
}

#[test]
fn a_reload_that_kube_scheduler_need_not_be_told() {
    let told = entries(&config("binder: BuiltIn", &backend("a", "filter: {}")));
    let cases = [
        ("binder: BuiltIn", backend("b", "score: {}"), true),
        ("binder: BuiltIn\ntimeouts: {decision: 500ms, bind: 1s}", backend("a", "filter: {}"), true),
        ("binder: BuiltIn\ntimeouts: {decision: 2s}", backend("a", "filter: {}"), false),
        ("binder: None", backend("a", "filter: {}"), false),
        ("binder: BuiltIn", filter("a", &["x.y/a ignored"]), false),
        ("binder: BuiltIn\nnodes: {source: Request}", backend("a", "filter: {}"), false),
        ("binder: BuiltIn\nextender: {verbs: {bind: b}}", backend("a", "filter: {}"), false),
        ("binder: BuiltIn\nextender: {tls: {certFile: a, keyFile: b}}", backend("a", "filter: {}"), false),
    ];
    for (lines, backend, covered) in cases {
        assert_eq!(entries(&config(lines, &backend)).are_covered_by(&told), covered, "{lines} {backend}");
    }
}

proptest! {
    /// kube-scheduler rejects both.
    #[test]
    fn no_resource_stands_in_two_entries_and_one_entry_binds(
        lines in prop::sample::select(&["", "binder: BuiltIn", "binder: b0"][..]),
        backends in prop::collection::vec(prop::collection::btree_set(0..5_usize, 0..4), 1..4),
        ignored in prop::collection::vec(any::<bool>(), 5),
    ) {
        let resource = |at: &usize| format!("x.y/r{at}{}", if ignored[*at] { " ignored" } else { "" });
        let backend = |(at, resources): (usize, &BTreeSet<usize>)| {
            let resources: Vec<String> = resources.iter().map(resource).collect();
            let resources: Vec<&str> = resources.iter().map(String::as_str).collect();
            let name = format!("b{at}");
            if lines.is_empty() { filter(&name, &resources) } else { binder(&name, &resources) }
        };
        let backends: Vec<String> = backends.iter().enumerate().map(backend).collect();
        let Entries(entries) = entries(&config(lines, &backends.join(", ")));
        let resources = || entries.iter().flat_map(|entry| &entry.managed_resources);
        let names: Vec<&String> = resources().map(|resource| &resource.name).collect();
        prop_assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        let binders = entries.iter().filter(|entry| entry.bind_verb.is_some()).count();
        prop_assert_eq!(binders, usize::from(!lines.is_empty()));
    }
}
