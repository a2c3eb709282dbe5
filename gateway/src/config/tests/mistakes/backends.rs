//! Wrong backends and all that is said about them.

use super::super::HEADER;
use super::{said_of_backend, sentences};

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
    const URL: &str = "http://HOST:PORT or https://HOST:PORT such as http://rack-drain.policies.svc:9000";
    const NEVER: &str =
        "backends[1]: would never be asked; add `filter: {}`, `score: {}`, `preempt: {}` or `bind: {}`";
    let cases: [(&str, &[&str]); 8] = [
        ("b", &["backends[1]: \"b\" is text; a mapping with name, url and filter, score, preempt or bind"]),
        (
            "{}",
            &[
                &format!("backends[1].name: is missing; {NAME}"),
                &format!("backends[1].url: is missing; {URL}"),
                NEVER,
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
        ("{name: b, url: 'http://b:1'}", &[NEVER]),
        (
            "{name: b, url: 'http://b:1', score: {}, weight: 2}",
            &[
                "backends[1].weight: is not a known field; known are name, url, tls, mode, pureAnswers, args, match, filter, score, preempt, bind",
            ],
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
fn settings_of_the_other_verbs() {
    let mapping = "a mapping such as {timeout: 200ms}, {} for the defaults";
    let cases = [
        (
            "score: {failurePolicy: Fail}",
            "score.failurePolicy: \"Fail\" is not known; Ignore, or leave it out: a failed score never fails the call"
                .to_owned(),
        ),
        ("preempt: ", format!("preempt: is empty; {mapping}")),
        (
            "preempt: {timeout: 2s}",
            "preempt.timeout: 2s is longer than timeouts.decision, 1s; at most 1s, or a longer timeouts.decision"
                .to_owned(),
        ),
        ("preempt: {failurePolicy: Next}", "preempt.failurePolicy: \"Next\" is not known; Fail or Ignore".to_owned()),
        ("preempt: {addedVictims: Honored}", "preempt.addedVictims: \"Honored\" is not known; Refused or Allowed".to_owned()),
        (
            "preempt: {preemptionMayHelp: Honored}",
            "preempt.preemptionMayHelp: is not a known field; known are timeout, failurePolicy, addedVictims".to_owned(),
        ),
    ];
    for (settings, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', {settings}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].{expected}")], "{settings}");
    }
}

/// What is said about `binder` and the `bind` block of the only backend.
fn said_of_bind(binder: &str, bind: &str) -> Vec<String> {
    sentences(&format!("{HEADER}{binder}\nbackends: [{{name: a, url: 'http://a:1', filter: {{}}{bind}}}]"))
}

#[test]
fn who_binds() {
    let right = "None, BuiltIn or the name of a backend";
    let unused =
        "binder: is None, and backend a has a bind block; BuiltIn or that backend's name, or no bind block";
    let cases = [
        ("binder: a", "", format!("binder: \"a\" has no bind block; {right}")),
        ("binder: b", ", bind: {}", format!("binder: \"b\" is not a backend of this file; {right}")),
        ("binder: none", "", format!("binder: \"none\" is not a backend of this file; {right}")),
        ("binder: true", "", format!("binder: true without quotes is a boolean; {right}")),
        ("", ", bind: {}", unused.to_owned()),
        ("binder: None", ", bind: {}", unused.to_owned()),
        (
            "binder: BuiltIn",
            ", bind: {timeout: 11s}",
            "backends[0].bind.timeout: 11s is longer than timeouts.bind, 10s; at most 10s, or a longer timeouts.bind"
                .to_owned(),
        ),
        (
            "binder: BuiltIn",
            ", bind: {failurePolicy: Ignore}",
            "backends[0].bind.failurePolicy: \"Ignore\" is not known; Fail or Next".to_owned(),
        ),
        (
            "binder: BuiltIn",
            ", bind: {weight: 1}",
            "backends[0].bind.weight: is not a known field; known are timeout, failurePolicy".to_owned(),
        ),
        (
            "binder: BuiltIn",
            ", bind: ",
            "backends[0].bind: is empty; a mapping such as {timeout: 5s}, {} for the defaults".to_owned(),
        ),
    ];
    for (binder, bind, expected) in cases {
        assert_eq!(said_of_bind(binder, bind), [expected], "{binder} {bind}");
    }
}

#[test]
fn a_mistake_has_no_others_in_its_train() {
    let weight = "backends[0].filter.weight: is not a known field; known are timeout, failurePolicy, preemptionMayHelp";
    assert_eq!(said_of_backends("binder: a", "filter: {weight: 1}, bind: {}"), [weight]);
    let source = "nodes.source: \"Wach\" is not known; Watch, Request, File or NamesOnly";
    let backend = "preempt: {addedVictims: Allowed}";
    assert_eq!(said_of_backends("nodes: {source: Wach}", backend), [source]);
}

/// What is said about a configuration with these lines and one backend, `a`, with these settings.
fn said_of_backends(lines: &str, settings: &str) -> Vec<String> {
    sentences(&format!("{HEADER}{lines}\nbackends: [{{name: a, url: 'http://a:1', {settings}}}]"))
}

#[test]
fn victims_are_only_added_where_pods_are_known() {
    for lines in ["pods: {source: None}", "nodes: {source: Request}"] {
        let yaml = format!(
            "{HEADER}{lines}\nbackends: [{{name: a, url: 'http://a:1', preempt: {{addedVictims: Allowed}}}}]"
        );
        let expected = "pods.source: is None, and backend a may add victims, which are checked against pods; \
                        Watch, or addedVictims: Refused";
        assert_eq!(sentences(&yaml), [expected], "{lines}");
    }
}

#[test]
fn modes() {
    let backend = "{name: b, url: 'http://b:1', filter: {}, mode: shadow}";
    let expected = "backends[1].mode: \"shadow\" is not known; Enforce, Shadow or Disabled";
    assert_eq!(said_of_backend(backend), [expected]);
}

#[test]
fn tls_of_backends() {
    let host = "a DNS name or IP address such as rack-drain.policies.svc";
    let cases = [
        (
            "http",
            "tls: {caFile: a}",
            "tls: does not go with an http URL; an https URL, or leave it out".to_owned(),
        ),
        ("https", "mode: Enforce", "tls: is missing; with an https URL, {caFile: FILE}".to_owned()),
        ("https", "tls: ", "tls: is empty; a mapping such as {caFile: ca.crt}".to_owned()),
        (
            "https",
            "tls: {}",
            "tls.caFile: is missing; the certificates of the authorities, a PEM file".to_owned(),
        ),
        ("https", "tls: {caFile: ''}", "tls.caFile: is empty; the path of a file".to_owned()),
        ("https", "tls: {caFile: a, certFile: b}", "tls.keyFile: is missing; the key, a PEM file".to_owned()),
        (
            "https",
            "tls: {caFile: a, keyFile: b}",
            "tls.certFile: is missing; the certificate chain, a PEM file".to_owned(),
        ),
        (
            "https",
            "tls: {caFile: a, serverName: 'b:1'}",
            format!("tls.serverName: \"b:1\" is not a host; {host}"),
        ),
        ("https", "tls: {caFile: a, serverName: ''}", format!("tls.serverName: \"\" is not a host; {host}")),
        (
            "https",
            "tls: {caFile: a, insecure: true}",
            "tls.insecure: is not a known field; known are caFile, certFile, keyFile, serverName".to_owned(),
        ),
    ];
    for (scheme, tls, expected) in cases {
        let backend = format!("{{name: b, url: '{scheme}://b:1', filter: {{}}, {tls}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].{expected}")], "{tls}");
    }
}

#[test]
fn pods_of_interest() {
    let resource = "an extended resource such as example.com/gpu";
    let namespace = "1 to 63 lower case letters, digits and -, with a letter or digit at both ends";
    let cases = [
        ("[]", ": is a list; a mapping such as {podSelector: {matchLabels: {tier: batch}}}".to_owned()),
        ("{managedResources: [a.b/c]}", ".managedResources[0]: \"a.b/c\" is text; a mapping such as {name: example.com/gpu}".to_owned()),
        ("{managedResources: {}}", ".managedResources: is a mapping; a list such as [{name: example.com/gpu}]".to_owned()),
        ("{managedResources: [{}]}", format!(".managedResources[0].name: is missing; {resource}")),
        ("{managedResources: [{name: cpu}]}", format!(".managedResources[0].name: \"cpu\" is a resource of Kubernetes itself; {resource}")),
        ("{managedResources: [{name: a.b/}]}", format!(".managedResources[0].name: \"a.b/\" is not a resource; {resource}")),
        ("{managedResources: [{name: a.b/c}, {name: a.b/c}]}", ".managedResources[1].name: \"a.b/c\" is there already; each resource once".to_owned()),
        ("{managedResources: [{name: a.b/c, ignoredByScheduler: yes}]}", ".managedResources[0].ignoredByScheduler: \"yes\" is text; true or false".to_owned()),
        ("{namespaces: []}", ".namespaces: is an empty list; at least one namespace, or leave it out for all of them".to_owned()),
        ("{namespaces: a}", ".namespaces: \"a\" is text; a list of namespaces such as [shop, search]".to_owned()),
        ("{namespaces: ['*']}", format!(".namespaces[0]: \"*\" is not a namespace; {namespace}")),
        ("{excludedNamespaces: [a_b]}", format!(".excludedNamespaces[0]: \"a_b\" is not a namespace; {namespace}")),
        ("{namespaces: [a], excludedNamespaces: [b]}", ".excludedNamespaces: does not go with namespaces; one of the two".to_owned()),
        (
            "{labels: {}}",
            ".labels: is not a known field; known are managedResources, namespaces, excludedNamespaces, podSelector".to_owned(),
        ),
    ];
    for (interest, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', filter: {{}}, match: {interest}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].match{expected}")], "{interest}");
    }
}

#[test]
fn selectors_of_pods() {
    let key = "a label's key such as tier or example.com/tier";
    let value = "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, or \"\"";
    let (values, first) = ("a list of values such as [batch]", "matchExpressions[0]");
    let cases = [
        ("tier: batch", "tier: is not a known field; known are matchLabels, matchExpressions".to_owned()),
        ("matchLabels: [a]", "matchLabels: is a list; a mapping of labels such as {tier: batch}".to_owned()),
        ("matchLabels: {-a: b}", format!("matchLabels.-a: \"-a\" is not a label's key; {key}")),
        ("matchLabels: {a/b/c: d}", format!("matchLabels[\"a/b/c\"]: \"a/b/c\" is not a label's key; {key}")),
        ("matchLabels: {a: b/c}", format!("matchLabels.a: \"b/c\" is not a label's value; {value}")),
        ("matchLabels: {a: 1}", format!("matchLabels.a: 1 without quotes is a number; {value}")),
        ("matchLabels: {a: true}", format!("matchLabels.a: true without quotes is a boolean; {value}")),
        ("matchExpressions: {}", "matchExpressions: is a mapping; a list such as [{key: tier, operator: In, values: [batch, web]}]".to_owned()),
        ("matchExpressions: [a]", format!("{first}: \"a\" is text; a mapping such as {{key: tier, operator: In, values: [batch]}}")),
        ("matchExpressions: [{operator: Exists}]", format!("{first}.key: is missing; {key}")),
        ("matchExpressions: [{key: a b, operator: Exists}]", format!("{first}.key: \"a b\" is not a label's key; {key}")),
        ("matchExpressions: [{key: a}]", format!("{first}.operator: is missing; In, NotIn, Exists or DoesNotExist")),
        ("matchExpressions: [{key: a, operator: Gt}]", format!("{first}.operator: \"Gt\" is not known; In, NotIn, Exists or DoesNotExist")),
        ("matchExpressions: [{key: a, operator: In}]", format!("{first}.values: must name at least one value; {values}")),
        ("matchExpressions: [{key: a, operator: NotIn, values: []}]", format!("{first}.values: must name at least one value; {values}")),
        ("matchExpressions: [{key: a, operator: Exists, values: [b]}]", format!("{first}.values: does not go with operator: Exists; leave it out")),
        ("matchExpressions: [{key: a, operator: In, values: b}]", format!("{first}.values: \"b\" is text; {values}")),
        ("matchExpressions: [{key: a, operator: In, values: [b/c]}]", format!("{first}.values[0]: \"b/c\" is not a label's value; {value}")),
    ];
    for (selector, expected) in cases {
        let backend =
            format!("{{name: b, url: 'http://b:1', filter: {{}}, match: {{podSelector: {{{selector}}}}}}}");
        assert_eq!(
            said_of_backend(&backend),
            [format!("backends[1].match.podSelector.{expected}")],
            "{selector}"
        );
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
