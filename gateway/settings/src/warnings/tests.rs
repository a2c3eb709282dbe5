//! Which settings have warnings, and which do not.

use std::path::Path;

use crate::{Config, default_exempt};

/// The warnings about a configuration with these lines and backends with these settings, called b0, b1 and so on.
fn warned(lines: &str, backends: &[&str]) -> Vec<String> {
    let header = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n";
    let item = |(at, settings): (usize, &&str)| format!("- {{name: b{at}, url: 'http://b:1', {settings}}}\n");
    let backends: String = backends.iter().enumerate().map(item).collect();
    let local = if lines.contains("extender:") { "" } else { "extender: {address: '127.0.0.1:8888'}\n" };
    let yaml = format!("{header}{local}{lines}\nbackends:\n{backends}");
    let config = Config::parse(&yaml, Path::new("")).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
    config.warnings(&default_exempt(None))
}

const NONE_ENFORCED: &str = "backends: none has mode: Enforce, so every node is accepted for every pod; set mode: Enforce for at least one";

#[test]
fn usual_configurations_have_no_warnings() {
    let none: [&str; 0] = [];
    assert_eq!(warned("", &["filter: {}, score: {}, preempt: {}", "filter: {}, mode: Disabled"]), none);
    assert_eq!(warned("binder: b0", &["bind: {}", "filter: {}, mode: Shadow"]), none);
    assert_eq!(warned("cluster: {kubeconfig: k}", &["filter: {}"]), none);
    assert_eq!(warned("nodes: {source: Request}", &["preempt: {}"]), none);
}

#[test]
fn a_gateway_that_anyone_may_ask_to_bind_is_warned_about() {
    let open = "binder: BuiltIn\nextender: {address: '10.0.0.1:1', allowUnauthenticatedBind: true}";
    let text = "extender.allowUnauthenticatedBind: is true, so anyone who reaches 10.0.0.1:1 may bind any pending pod to any node with the \
                gateway's permissions; require client certificates with extender.tls.clientCAFile, or limit who reaches the address";
    assert_eq!(warned(open, &["filter: {}"]), [text]);
    assert_eq!(warned(&open.replace("10.0.0.1", "127.0.0.1"), &["filter: {}"]), [""; 0]);
    assert_eq!(warned(&open.replace("binder: BuiltIn\n", ""), &["filter: {}"]), [""; 0]);
}

#[test]
fn a_time_in_shadow_that_never_begins_is_warned_about() {
    let backend = |rest: &str| format!("filter: {{}}, maxRejectShare: {{share: 0.9, {rest}}}");
    let text = "backends[0].maxRejectShare.shadowFor: is not used with onExcess: Report; set onExcess: Shadow, or remove it";
    assert_eq!(warned("", &[&backend("shadowFor: 1h")]), [text]);
    assert_eq!(warned("", &[&backend("shadowFor: 1h, onExcess: Shadow")]), [""; 0]);
    assert_eq!(warned("", &[&backend("window: 1m")]), [""; 0]);
}

#[test]
fn calls_that_the_end_cuts_off_are_warned_about() {
    let text = "timeouts.shutdown: is 25s, but a call may take 31s: the gateway cancels those that are not finished when it stops; raise it, \
                and terminationGracePeriodSeconds to 10 seconds more, or shorten timeouts.decision and timeouts.bind";
    assert_eq!(warned("timeouts: {bind: 30s}", &["filter: {}"]), [text]);
    assert_eq!(warned("timeouts: {bind: 30s, shutdown: 31s}", &["filter: {}"]), [""; 0]);
}

#[test]
fn the_example_has_no_warnings() {
    let example = include_str!("../../../examples/gateway.yaml");
    let config = Config::parse(example, Path::new("")).unwrap();
    assert_eq!(config.warnings(&default_exempt(None)), [""; 0]);
}

#[test]
fn the_gateway() {
    let cases: [(&str, &[&str], &str); 8] = [
        ("", &["filter: {}, mode: Shadow", "score: {}, mode: Disabled"], NONE_ENFORCED),
        (
            "cluster: {kubeconfig: k}\nnodes: {source: Request}",
            &["filter: {}"],
            "cluster.kubeconfig: is not used: nothing needs the apiserver; remove it, or set nodes.source or pods.source to Watch",
        ),
        (
            "pods: {source: None}",
            &["filter: {}", "preempt: {}"],
            "pods.source: is None, so backend b1 would get victims as UIDs only; set it to Watch",
        ),
        (
            "",
            &["preempt: {timeout: 600ms}", "preempt: {timeout: 401ms}"],
            "timeouts.decision: is 1s, but the 2 backends that serve preempt are called in turn and may take \
             1s1ms; shorten their preempt.timeout, or raise timeouts.decision",
        ),
        (
            "",
            &[
                "beforeFilter: {timeout: 600ms}",
                "filter: {timeout: 401ms}",
                "mode: Disabled, beforeFilter: {}",
            ],
            "timeouts.decision: is 1s, but the hook before filter and then filter may take 1s1ms; shorten their timeouts, or raise \
             timeouts.decision",
        ),
        (
            "",
            &[
                "beforeFilter: {timeout: 500ms}, beforeFilterNodes: {timeout: 499ms}",
                "filter: {timeout: 2ms}",
            ],
            "timeouts.decision: is 1s, but the 2 hooks before filter, in turn, and then filter may take 1s1ms; shorten their \
             timeouts, or raise timeouts.decision",
        ),
        (
            "",
            &["filter: {timeout: 1s}"],
            "backends[0].filter.timeout: equals timeouts.decision, 1s; set a shorter one so that the backend can be called again for the remaining nodes",
        ),
        (
            "timeouts: {decision: 150ms}",
            &["score: {}", "filter: {}"],
            "backends[1].filter.timeout: equals timeouts.decision, 150ms; set a shorter one so that the backend can be called again for the remaining nodes",
        ),
    ];
    for (lines, backends, expected) in cases {
        assert_eq!(warned(lines, backends), [expected], "{lines} {backends:?}");
    }
}

#[test]
fn what_is_short_enough_is_not_warned_of() {
    for backends in [
        &["preempt: {timeout: 600ms}", "preempt: {timeout: 400ms}"][..],
        &["preempt: {timeout: 1s}", "preempt: {timeout: 1s}, mode: Disabled"],
        &["filter: {timeout: 999ms}", "filter: {timeout: 1s}, mode: Shadow"],
    ] {
        assert_eq!(warned("", backends), [""; 0], "{backends:?}");
    }
    // With Fail no other binder is called after a failure.
    for backend in ["bind: {timeout: 8999ms, failurePolicy: Next}", "bind: {timeout: 10s}"] {
        assert_eq!(warned("binder: BuiltIn", &[backend]), [""; 0], "{backend}");
    }
}

#[test]
fn hooks_without_effect() {
    let cases: [(&[&str], &str); 4] = [
        (
            &["filter: {}", "beforeFilterNodes: {}, mode: Shadow"],
            "backends[1].beforeFilterNodes: is not used with mode: Shadow: what a hook changes would reach other backends; set \
             mode: Enforce, or remove it",
        ),
        (
            &["beforeFilter: {}", "score: {}"],
            "backends[0].beforeFilter: has no effect: no backend has filter; add filter to the backend that should see the \
             changes, or remove it",
        ),
        (
            &["filter: {}, beforeScore: {}"],
            "backends[0].beforeScore: has no effect: no backend has score; add score to the backend that should see the \
             changes, or remove it",
        ),
        (
            &["beforeFilter: {}", "filter: {}, mode: Shadow", "filter: {}, beforeFilter: {}, mode: Disabled"],
            "",
        ),
    ];
    for (backends, expected) in cases {
        assert_eq!(warned("", backends).join("\n"), expected, "{backends:?}");
    }
}

#[test]
fn who_binds() {
    let cases: [(&str, &[&str], &str); 4] = [
        (
            "binder: b1",
            &["filter: {}", "bind: {}, mode: Disabled"],
            "binder: names b1, which has mode: Disabled and does not bind; set mode: Enforce for it, or binder: BuiltIn",
        ),
        (
            "binder: BuiltIn",
            &["filter: {}", "bind: {}, mode: Shadow"],
            "backends[1].bind: is not used with mode: Shadow; set mode: Enforce, or remove it",
        ),
        (
            "binder: BuiltIn",
            &["bind: {timeout: 9s, failurePolicy: Next}"],
            "backends[0].bind.timeout: is 9s, but timeouts.bind leaves only 9s for binders; set a shorter one so that the next binder can be called after a failure",
        ),
        (
            "binder: BuiltIn\ntimeouts: {bind: 2s}",
            &["bind: {failurePolicy: Next}"],
            "backends[0].bind.timeout: is 2s, but timeouts.bind leaves only 1s500ms for binders; set a shorter one so that the next binder can be called after a failure",
        ),
    ];
    for (lines, backends, expected) in cases {
        assert_eq!(warned(lines, backends), [expected], "{lines} {backends:?}");
    }
}

#[test]
fn namespaces_that_are_all_exempt() {
    let expected = "backends[0].match.namespaces: are all exempt, so the backend is never called; select other namespaces, or remove them from exempt.namespaces";
    for (exempt, namespaces, is_warned) in [
        ("", "[kube-system]", true),
        ("", "[kube-system, shop]", false),
        ("exempt: {namespaces: [shop, a]}", "[a, shop]", true),
        ("exempt: {namespaces: [shop]}", "[kube-system]", false),
        ("exempt: {namespaces: []}", "[kube-system]", false),
    ] {
        let backend = format!("filter: {{}}, match: {{namespaces: {namespaces}}}");
        let warned = warned(exempt, &[&backend]);
        assert_eq!(warned, if is_warned { vec![expected] } else { vec![] }, "{exempt} {namespaces}");
    }
}

#[test]
fn selectors_that_no_pod_satisfies() {
    let expected = "backends[0].match.podSelector: no pod can satisfy the conditions on label \"a\", so the backend is never called; use conditions that can hold together";
    for (expressions, is_warned) in [
        ("{key: a, operator: Exists}, {key: a, operator: DoesNotExist}", true),
        ("{key: a, operator: In, values: [b]}, {key: a, operator: DoesNotExist}", true),
        ("{key: a, operator: In, values: [b, c]}, {key: a, operator: In, values: [d]}", true),
        ("{key: a, operator: In, values: [b]}, {key: a, operator: NotIn, values: [b]}", true),
        ("{key: a, operator: In, values: [b, c]}, {key: a, operator: In, values: [c, d]}", false),
        ("{key: a, operator: In, values: [b, c]}, {key: a, operator: NotIn, values: [b]}", false),
        ("{key: a, operator: NotIn, values: [b]}, {key: a, operator: DoesNotExist}", false),
        ("{key: a, operator: NotIn, values: [b]}, {key: a, operator: Exists}", false),
        ("{key: a, operator: Exists}, {key: b, operator: DoesNotExist}", false),
    ] {
        let backend = format!("filter: {{}}, match: {{podSelector: {{matchExpressions: [{expressions}]}}}}");
        assert_eq!(warned("", &[&backend]), if is_warned { vec![expected] } else { vec![] }, "{expressions}");
    }
}

#[test]
fn resources_that_nothing_counts() {
    let ignored = "match: {managedResources: [{name: x.y/a, ignoredByScheduler: true}]}";
    let counted = "match: {managedResources: [{name: x.y/a}]}";
    let uncounted = "backends[0].match.managedResources: nothing counts x.y/a: kube-scheduler ignores it, and no backend with mode: Enforce filters for it; add the resource to such a backend, or set ignoredByScheduler: false";
    let elsewhere = "backends[1].match.managedResources: x.y/a is not counted by kube-scheduler: backend b0 has it with \
                     ignoredByScheduler: true; set the same value for both";
    let cases = [
        (vec![format!("filter: {{}}, {ignored}")], vec![]),
        (vec![format!("score: {{}}, {ignored}")], vec![uncounted]),
        (vec![format!("filter: {{}}, mode: Disabled, {ignored}"), "filter: {}".to_owned()], vec![uncounted]),
        (vec![format!("score: {{}}, {ignored}"), format!("filter: {{}}, {ignored}")], vec![]),
        (vec![format!("filter: {{}}, {ignored}"), format!("filter: {{}}, {counted}")], vec![elsewhere]),
    ];
    for (backends, expected) in cases {
        let backends: Vec<&str> = backends.iter().map(String::as_str).collect();
        assert_eq!(warned("", &backends), expected, "{backends:?}");
    }
}

#[test]
fn resources_that_are_not_always_counted() {
    let resource = "managedResources: [{name: x.y/a, ignoredByScheduler: true}]";
    let some = |gap: &str| {
        format!(
            "backends[0].match.managedResources: x.y/a is not always counted: kube-scheduler ignores it, and backend b0 \
             {gap}; use a backend that matches every such pod, with failurePolicy: Fail, or set ignoredByScheduler: false"
        )
    };
    let cases = [
        (
            format!("filter: {{}}, match: {{{resource}, namespaces: [a]}}"),
            "is not called outside match.namespaces",
        ),
        (
            format!("filter: {{}}, match: {{{resource}, excludedNamespaces: [a]}}"),
            "is not called in match.excludedNamespaces",
        ),
        (
            format!("filter: {{}}, match: {{{resource}, podSelector: {{matchLabels: {{a: b}}}}}}"),
            "is not called for pods outside match.podSelector",
        ),
        (
            format!("filter: {{failurePolicy: Ignore}}, match: {{{resource}}}"),
            "accepts every node when it fails (filter.failurePolicy: Ignore)",
        ),
    ];
    for (backend, gap) in cases {
        assert_eq!(warned("", &[&backend]), [some(gap)], "{backend}");
        // Another backend does it for every pod.
        let whole = format!("filter: {{}}, match: {{{resource}}}");
        assert_eq!(warned("", &[&backend, &whole]), [""; 0], "{backend}");
    }
}

#[test]
fn resources_of_exempt_pods() {
    let backend = "filter: {}, match: {managedResources: [{name: x.y/a, ignoredByScheduler: true}]}";
    let lines = |names: &str| format!("exempt: {{namespaces: [{names}]}}");
    let expected = "backends[0].match.managedResources: nothing counts x.y/a for pods of exempt namespaces: gateway, \
                    shop; remove them from exempt.namespaces, or set ignoredByScheduler: false";
    assert_eq!(warned(&lines("kube-system, gateway"), &[backend]), [""; 0]);
    assert_eq!(warned(&lines("kube-system, gateway, shop"), &[backend]), [expected]);
    assert_eq!(warned(&lines("kube-system, gateway, shop"), &["filter: {}"]), [""; 0]);
}

#[test]
fn a_backend_that_locks_its_own_pods_out() {
    let yaml = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
                backends: [{name: racks, url: 'http://racks.policies.svc:9000', filter: {}}]\n";
    let config = Config::parse(yaml, Path::new("")).unwrap();
    assert_eq!(
        config.warnings(&default_exempt(None)),
        [
            "backends[0].url: is in namespace policies, which is not exempt: if all pods of backend racks are gone, they cannot be \
             scheduled; add policies to exempt.namespaces, or set filter.failurePolicy: Ignore"
        ]
    );
    assert_eq!(config.warnings(&default_exempt(Some("policies".to_owned()))), [""; 0]);
}
