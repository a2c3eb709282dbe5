//! Invalid backends and their errors.

use super::super::{HEADER, right};
use super::{said_of_backend, said_of_lines, sentences};

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
        assert_eq!(
            sentences(&format!("{HEADER}{backends}")),
            [format!("backends: {wrong}; expected {right}")]
        );
    }
}

#[test]
fn backends() {
    const NAME: &str = "1 to 63 lower case letters, digits and -, with a letter or digit at both ends";
    const URL: &str = "http://HOST:PORT or https://HOST:PORT such as http://rack-drain.policies.svc:9000";
    const NEVER: &str = "backends[1]: has no verb and would never be called; add a verb such as `filter: {}` or `score: {}`, or a hook such as \
                         `beforeFilter: {}`";
    let cases: [(&str, &[&str]); 8] = [
        (
            "b",
            &[
                "backends[1]: \"b\" is a string; expected a mapping with name, url and a verb such as filter or score",
            ],
        ),
        (
            "{}",
            &[
                &format!("backends[1].name: is missing; expected {NAME}"),
                &format!("backends[1].url: is missing; expected {URL}"),
                NEVER,
            ],
        ),
        (
            "{name: a, url: 'http://b:1', score: {}}",
            &["backends[1].name: \"a\" is already the name of backends[0]; expected a unique name"],
        ),
        (
            "{name: B, url: 'http://b:1', score: {}}",
            &[&format!("backends[1].name: \"B\" is not a valid backend name; expected {NAME}")],
        ),
        (
            "{name: 12, url: 'http://b:1', score: {}}",
            &[&format!("backends[1].name: 12 without quotes is a number; expected {NAME}")],
        ),
        (
            "{name: b, url: 'http://b', score: {}}",
            &[&format!("backends[1].url: \"b\" has no port; expected {URL}")],
        ),
        ("{name: b, url: 'http://b:1'}", &[NEVER]),
        (
            "{name: b, url: 'http://b:1', score: {}, weight: 2}",
            &["backends[1].weight: unknown field; set it in score"],
        ),
    ];
    for (backend, expected) in cases {
        assert_eq!(said_of_backend(backend), expected, "{backend}");
    }
}

#[test]
fn rollouts() {
    const PERCENT: &str = "a whole number from 0 to 100 such as 10";
    const SHARE: &str = "a number from 0 to 1 such as 0.9";
    let cases = [
        (
            "filter: {}, canary: 10",
            "canary: 10 is a number; expected a mapping such as {percent: 10}".to_owned(),
        ),
        ("filter: {}, canary: {}", format!("canary.percent: is missing; expected {PERCENT}")),
        (
            "filter: {}, canary: {percent: 101}",
            format!("canary.percent: 101 is out of range; expected {PERCENT}"),
        ),
        (
            "filter: {}, canary: {percent: 0.1}",
            format!("canary.percent: 0.1 is not a whole number; expected {PERCENT}"),
        ),
        (
            "filter: {}, canary: {percent: 10}, mode: Shadow",
            "canary: cannot be combined with mode: Shadow; remove it, or set mode: Enforce".to_owned(),
        ),
        ("filter: {}, maxRejectShare: {}", format!("maxRejectShare.share: is missing; expected {SHARE}")),
        (
            "filter: {}, maxRejectShare: {share: 0.9, onExcess: Disable}",
            "maxRejectShare.onExcess: unknown value \"Disable\"; expected Report or Shadow".to_owned(),
        ),
        (
            "score: {}, maxRejectShare: {share: 0.9}",
            "maxRejectShare: is a limit for filter, and there is no filter; remove it, or add `filter: {}`"
                .to_owned(),
        ),
    ];
    for (fields, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', {fields}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].{expected}")], "{fields}");
    }
}

#[test]
fn settings_of_verbs() {
    const WEIGHT: &str = "a whole number from 1 to 1000000";
    let cases = [
        ("filter: ", "filter: is empty; expected a mapping such as {timeout: 200ms}, {} for the defaults".to_owned()),
        ("filter: true", "filter: true is a boolean; expected a mapping such as {timeout: 200ms}, {} for the defaults".to_owned()),
        (
            "filter: {timeout: 1s1ms}",
            "filter.timeout: 1s1ms is longer than timeouts.decision, 1s; expected at most 1s, or a longer timeouts.decision".to_owned(),
        ),
        ("filter: {preemptionMayHelp: true}", "filter.preemptionMayHelp: true without quotes is a boolean; expected Ignored or Honored".to_owned()),
        ("filter: {weight: 2}", "filter.weight: unknown field; known fields: timeout, failurePolicy, preemptionMayHelp".to_owned()),
        ("score: {weight: 0}", format!("score.weight: 0 is out of range; expected {WEIGHT}")),
        ("score: {weight: 1000001}", format!("score.weight: 1000001 is out of range; expected {WEIGHT}")),
        ("score: {weight: -1}", format!("score.weight: -1 is out of range; expected {WEIGHT}")),
        ("score: {weight: 2.0}", format!("score.weight: 2.0 is not a whole number; expected {WEIGHT}")),
        ("score: {weight: two}", format!("score.weight: \"two\" is a string; expected {WEIGHT}")),
        ("score: {normalize: minmax}", "score.normalize: unknown value \"minmax\"; expected None, Range, Max or MinMax".to_owned()),
        ("score: {reversed: yes}", "score.reversed: \"yes\" is a string; expected true or false".to_owned()),
        (
            "score: {normalize: None, reversed: true}",
            "score.reversed: cannot be combined with normalize: None; expected another normalize, or false".to_owned(),
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
            "score.failurePolicy: unknown value \"Fail\"; expected Ignore, the only policy: a failed score never fails the call"
                .to_owned(),
        ),
        ("preempt: ", format!("preempt: is empty; expected {mapping}")),
        (
            "preempt: {timeout: 2s}",
            "preempt.timeout: 2s is longer than timeouts.decision, 1s; expected at most 1s, or a longer timeouts.decision"
                .to_owned(),
        ),
        ("preempt: {failurePolicy: Next}", "preempt.failurePolicy: unknown value \"Next\"; expected Fail or Ignore".to_owned()),
        ("preempt: {addedVictims: Honored}", "preempt.addedVictims: unknown value \"Honored\"; expected Refused or Allowed".to_owned()),
        (
            "preempt: {preemptionMayHelp: Honored}",
            "preempt.preemptionMayHelp: unknown field; known fields: timeout, failurePolicy, addedVictims".to_owned(),
        ),
        (
            "beforeFilterNodes: {timeout: 2s}",
            "beforeFilterNodes.timeout: 2s is longer than timeouts.decision, 1s; expected at most 1s, or a longer timeouts.decision"
                .to_owned(),
        ),
        ("beforeFilter: {failurePolicy: Next}", "beforeFilter.failurePolicy: unknown value \"Next\"; expected Fail or Ignore".to_owned()),
        (
            "beforeScore: {failurePolicy: Fail}",
            "beforeScore.failurePolicy: unknown value \"Fail\"; expected Ignore, the only policy: a failed score never fails the call"
                .to_owned(),
        ),
    ];
    for (settings, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', {settings}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].{expected}")], "{settings}");
    }
}

/// The errors of `binder` and the `bind` block of the only backend.
fn said_of_bind(binder: &str, bind: &str) -> Vec<String> {
    let local = "extender: {address: '127.0.0.1:8888'}";
    sentences(&format!(
        "{HEADER}{local}\n{binder}\nbackends: [{{name: a, url: 'http://a:1', filter: {{}}{bind}}}]"
    ))
}

#[test]
fn strangers_bind_no_pods() {
    let said = |extender: &str, binder: &str| {
        let backend = "{name: a, url: 'http://a:1', filter: {}, bind: {}}";
        sentences(&format!("{HEADER}extender: {{{extender}}}\nbinder: {binder}\nbackends: [{backend}]"))
    };
    let refused = "binder: would let anyone bind pods who reaches extender.address 0.0.0.0:8888; expected None, extender.tls with clientCAFile, \
                   a loopback address, or extender.allowUnauthenticatedBind: true";
    for binder in ["BuiltIn", "a"] {
        assert_eq!(said("", binder), [refused], "{binder}");
        let tls = "tls: {certFile: a, keyFile: b, clientCAFile: c";
        assert_eq!(said(&format!("{tls}, clientCertificate: Optional}}"), binder), [refused]);
        for allowed in [&format!("{tls}}}"), "address: '[::1]:8888'", "allowUnauthenticatedBind: true"] {
            let backend = "{name: a, url: 'http://a:1', filter: {}, bind: {}}";
            right(&format!("{HEADER}extender: {{{allowed}}}\nbinder: {binder}\nbackends: [{backend}]"));
        }
    }
}

#[test]
fn which_backends_must_have_answered() {
    let said = |names: &str| said_of_lines(&format!("readiness: {{backends: [{names}]}}"));
    let right = "expected names of backends that are called";
    assert_eq!(said("b"), [format!("readiness.backends: \"b\" is not a backend of this file; {right}")]);
    assert_eq!(said("A B").len(), 1);
    let disabled = "{name: b, url: 'http://b:1', mode: Disabled, filter: {}}";
    let yaml = format!("{HEADER}readiness: {{backends: [b]}}\nbackends: [{disabled}]");
    assert_eq!(sentences(&yaml), [format!("readiness.backends: \"b\" is disabled; {right}")]);
}

#[test]
fn who_binds() {
    let right = "None, BuiltIn or the name of a backend";
    let unused = "binder: is None, but backend a has a bind block; expected BuiltIn or that backend's name, or no bind block";
    let cases = [
        ("binder: a", "", format!("binder: \"a\" has no bind block; expected {right}")),
        ("binder: b", ", bind: {}", format!("binder: \"b\" is not a backend of this file; expected {right}")),
        ("binder: none", "", format!("binder: \"none\" is not a backend of this file; expected {right}")),
        ("binder: true", "", format!("binder: true without quotes is a boolean; expected {right}")),
        ("", ", bind: {}", unused.to_owned()),
        ("binder: None", ", bind: {}", unused.to_owned()),
        (
            "binder: BuiltIn",
            ", bind: {timeout: 11s}",
            "backends[0].bind.timeout: 11s is longer than timeouts.bind, 10s; expected at most 10s, or a longer timeouts.bind"
                .to_owned(),
        ),
        (
            "binder: BuiltIn",
            ", bind: {failurePolicy: Ignore}",
            "backends[0].bind.failurePolicy: unknown value \"Ignore\"; expected Fail or Next".to_owned(),
        ),
        (
            "binder: BuiltIn",
            ", bind: {weight: 1}",
            "backends[0].bind.weight: unknown field; known fields: timeout, failurePolicy".to_owned(),
        ),
        (
            "binder: BuiltIn",
            ", bind: ",
            "backends[0].bind: is empty; expected a mapping such as {timeout: 5s}, {} for the defaults".to_owned(),
        ),
    ];
    for (binder, bind, expected) in cases {
        assert_eq!(said_of_bind(binder, bind), [expected], "{binder} {bind}");
    }
}

#[test]
fn a_mistake_has_no_others_in_its_train() {
    let weight =
        "backends[0].filter.weight: unknown field; known fields: timeout, failurePolicy, preemptionMayHelp";
    let binder = "extender: {allowUnauthenticatedBind: true}\nbinder: a";
    assert_eq!(said_of_backends(binder, "filter: {weight: 1}, bind: {}"), [weight]);
    let source = "nodes.source: unknown value \"Wach\"; expected Watch, Request, File or NamesOnly";
    let backend = "preempt: {addedVictims: Allowed}";
    assert_eq!(said_of_backends("nodes: {source: Wach}", backend), [source]);
}

/// The errors of a configuration with these lines and one backend, `a`, with these settings.
fn said_of_backends(lines: &str, settings: &str) -> Vec<String> {
    sentences(&format!("{HEADER}{lines}\nbackends: [{{name: a, url: 'http://a:1', {settings}}}]"))
}

#[test]
fn calls_are_limited_to_resources_that_all_backends_have() {
    let lines = "extender: {calledFor: ManagedResources}";
    let expected = "extender.calledFor: is ManagedResources, but backend a has no match.managedResources; expected AllPods, or \
                    managed resources of every backend";
    assert_eq!(said_of_backends(lines, "filter: {}"), [expected]);
    right(&format!(
        "{HEADER}{lines}\nbackends: [{{name: a, url: 'http://a:1', filter: {{}}, match: {{managedResources: [{{name: x.y/z}}]}}}}]"
    ));
}

#[test]
fn victims_are_only_added_where_pods_are_known() {
    for lines in ["pods: {source: None}", "nodes: {source: Request}"] {
        let yaml = format!(
            "{HEADER}{lines}\nbackends: [{{name: a, url: 'http://a:1', preempt: {{addedVictims: Allowed}}}}]"
        );
        let expected = "pods.source: is None, but backend a may add victims, which are checked against pods; \
                        expected Watch, or addedVictims: Refused";
        assert_eq!(sentences(&yaml), [expected], "{lines}");
    }
}

#[test]
fn modes() {
    let backend = "{name: b, url: 'http://b:1', filter: {}, mode: shadow}";
    let expected = "backends[1].mode: unknown value \"shadow\"; expected Enforce, Shadow or Disabled";
    assert_eq!(said_of_backend(backend), [expected]);
}

#[test]
fn tls_of_backends() {
    let host = "a DNS name or IP address such as rack-drain.policies.svc";
    let cases = [
        (
            "http",
            "tls: {caFile: a}",
            "tls: cannot be combined with an http URL; use an https URL, or remove it".to_owned(),
        ),
        ("https", "mode: Enforce", "tls: is missing, but url is https; expected {caFile: FILE}".to_owned()),
        ("https", "tls: ", "tls: is empty; expected a mapping such as {caFile: ca.crt}".to_owned()),
        ("https", "tls: {}", "tls.caFile: is missing; expected the CA certificates, a PEM file".to_owned()),
        ("https", "tls: {caFile: ''}", "tls.caFile: is empty; expected the path of a file".to_owned()),
        (
            "https",
            "tls: {caFile: a, certFile: b}",
            "tls.keyFile: is missing; expected the key, a PEM file".to_owned(),
        ),
        (
            "https",
            "tls: {caFile: a, keyFile: b}",
            "tls.certFile: is missing; expected the certificate chain, a PEM file".to_owned(),
        ),
        (
            "https",
            "tls: {caFile: a, serverName: 'b:1'}",
            format!("tls.serverName: \"b:1\" is not a host; expected {host}"),
        ),
        (
            "https",
            "tls: {caFile: a, serverName: ''}",
            format!("tls.serverName: \"\" is not a host; expected {host}"),
        ),
        (
            "https",
            "tls: {caFile: a, insecure: true}",
            "tls.insecure: unknown field; known fields: caFile, certFile, keyFile, serverName".to_owned(),
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
        ("[]", ": is a list; expected a mapping such as {podSelector: {matchLabels: {tier: batch}}}".to_owned()),
        ("{managedResources: [a.b/c]}", ".managedResources[0]: \"a.b/c\" is a string; expected a mapping such as {name: example.com/gpu}".to_owned()),
        ("{managedResources: {}}", ".managedResources: is a mapping; expected a list such as [{name: example.com/gpu}]".to_owned()),
        ("{managedResources: [{}]}", format!(".managedResources[0].name: is missing; expected {resource}")),
        ("{managedResources: [{name: cpu}]}", format!(".managedResources[0].name: \"cpu\" is a native resource of Kubernetes; expected {resource}")),
        ("{managedResources: [{name: a.b/}]}", format!(".managedResources[0].name: \"a.b/\" is not a resource; expected {resource}")),
        ("{managedResources: [{name: a.b/c}, {name: a.b/c}]}", ".managedResources[1].name: \"a.b/c\" is listed twice; expected each resource once".to_owned()),
        ("{managedResources: [{name: a.b/c, ignoredByScheduler: yes}]}", ".managedResources[0].ignoredByScheduler: \"yes\" is a string; expected true or false".to_owned()),
        ("{namespaces: []}", ".namespaces: is an empty list; list at least one namespace, or remove it to select all".to_owned()),
        ("{namespaces: a}", ".namespaces: \"a\" is a string; expected a list of namespaces such as [shop, search]".to_owned()),
        ("{namespaces: ['*']}", format!(".namespaces[0]: \"*\" is not a namespace; expected {namespace}")),
        ("{excludedNamespaces: [a_b]}", format!(".excludedNamespaces[0]: \"a_b\" is not a namespace; expected {namespace}")),
        ("{namespaces: [a], excludedNamespaces: [b]}", ".excludedNamespaces: cannot be combined with namespaces; expected one of the two".to_owned()),
        (
            "{labels: {}}",
            ".labels: unknown field; known fields: managedResources, namespaces, excludedNamespaces, podSelector".to_owned(),
        ),
    ];
    for (interest, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', filter: {{}}, match: {interest}}}");
        assert_eq!(said_of_backend(&backend), [format!("backends[1].match{expected}")], "{interest}");
    }
}

#[test]
fn selectors_of_pods() {
    let key = "a label key such as tier or example.com/tier";
    let value = "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, or \"\"";
    let (values, first) = ("a list of values such as [batch]", "matchExpressions[0]");
    let cases = [
        ("tier: batch", "tier: unknown field; known fields: matchLabels, matchExpressions".to_owned()),
        ("matchLabels: [a]", "matchLabels: is a list; expected a mapping of labels such as {tier: batch}".to_owned()),
        ("matchLabels: {-a: b}", format!("matchLabels.-a: \"-a\" is not a label key; expected {key}")),
        ("matchLabels: {a/b/c: d}", format!("matchLabels[\"a/b/c\"]: \"a/b/c\" is not a label key; expected {key}")),
        ("matchLabels: {a: b/c}", format!("matchLabels.a: \"b/c\" is not a label value; expected {value}")),
        ("matchLabels: {a: 1}", format!("matchLabels.a: 1 without quotes is a number; expected {value}")),
        ("matchLabels: {a: true}", format!("matchLabels.a: true without quotes is a boolean; expected {value}")),
        ("matchExpressions: {}", "matchExpressions: is a mapping; expected a list such as [{key: tier, operator: In, values: [batch, web]}]".to_owned()),
        ("matchExpressions: [a]", format!("{first}: \"a\" is a string; expected a mapping such as {{key: tier, operator: In, values: [batch]}}")),
        ("matchExpressions: [{operator: Exists}]", format!("{first}.key: is missing; expected {key}")),
        ("matchExpressions: [{key: a b, operator: Exists}]", format!("{first}.key: \"a b\" is not a label key; expected {key}")),
        ("matchExpressions: [{key: a}]", format!("{first}.operator: is missing; expected In, NotIn, Exists or DoesNotExist")),
        ("matchExpressions: [{key: a, operator: Gt}]", format!("{first}.operator: unknown value \"Gt\"; expected In, NotIn, Exists or DoesNotExist")),
        ("matchExpressions: [{key: a, operator: In}]", format!("{first}.values: must contain at least one value; expected {values}")),
        ("matchExpressions: [{key: a, operator: NotIn, values: []}]", format!("{first}.values: must contain at least one value; expected {values}")),
        ("matchExpressions: [{key: a, operator: Exists, values: [b]}]", format!("{first}.values: cannot be combined with operator: Exists; remove it")),
        ("matchExpressions: [{key: a, operator: In, values: b}]", format!("{first}.values: \"b\" is a string; expected {values}")),
        ("matchExpressions: [{key: a, operator: In, values: [b/c]}]", format!("{first}.values[0]: \"b/c\" is not a label value; expected {value}")),
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
    let number = "is not a JSON number; expected a finite number, or a string in quotes";
    let cases = [
        ("[1]", vec![": is a list; expected a mapping such as {label: topology/rack}".to_owned()]),
        ("~", vec![": is empty; expected a mapping such as {label: topology/rack}".to_owned()]),
        ("{a: .inf, b: [.nan]}", vec![format!(".a: {number}"), format!(".b[0]: {number}")]),
        ("{a: 1, a: 2}", vec![".a: is defined twice, first on line 5; remove one of them".to_owned()]),
        // Keys that are numbers, or look like numbers, must not hide a repeated one.
        (
            "{'1': 0, 2: 0, 'b.c': {d: 0, d: 0}}",
            vec![
                ": has a key that is not a string; expected strings as keys, in quotes if necessary"
                    .to_owned(),
                "[\"b.c\"].d: is defined twice, first on line 5; remove one of them".to_owned(),
            ],
        ),
        ("{'1': 0, '1': 0}", vec![".1: is defined twice, first on line 5; remove one of them".to_owned()]),
    ];
    for (args, expected) in cases {
        let backend = format!("{{name: b, url: 'http://b:1', score: {{}}, args: {args}}}");
        let expected: Vec<String> = expected.iter().map(|said| format!("backends[1].args{said}")).collect();
        assert_eq!(said_of_backend(&backend), expected, "{args}");
    }
}
