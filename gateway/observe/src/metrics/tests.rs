use std::time::Duration;

use extender_gateway_core::{FailureKind, PolicyVerb, Verb};
use extender_gateway_record::{Agreement, CallOutcome, OnFailure};
use extender_gateway_settings::{BackendSettings, samples};

use super::*;

impl Metrics {
    /// Records one of everything, so that every metric has a series.
    pub(super) fn record_everything(&self) {
        let (millisecond, trace) = (Duration::from_millis(1), Some([1; 16]));
        let verb = self.verb(Some(Verb::Filter));
        verb.begin();
        verb.answered(CallOutcome::Ok, millisecond, trace);
        verb.count_nodes(3, 2);
        verb.count_bytes(100, 50);
        let backend = self.backend("zones");
        backend.configure(&configured("zones"));
        backend.count_rejected("in drain", 1);
        backend.record_share(PolicyVerb::Filter, 1, 3);
        let filter = &backend.verbs[PolicyVerb::Filter];
        filter.asked(3);
        filter.answered(millisecond, trace);
        filter.failed((FailureKind::Late, Some(OnFailure::Fail)), millisecond, trace);
        filter.not_sent((FailureKind::Unreachable, Some(OnFailure::Ignore)));
        filter.shadowed(Agreement::Agrees);
        filter.count_bytes(10, 5);
        backend.verbs[PolicyVerb::BeforeFilterNodes].asked(3);
        let process = self.process();
        process.configuration_reloads.add(["ok"], 1);
        process.dropped_connections.add(["metrics", "evicted"], 1);
        process.unauthorized_requests.add(["admin", "no_token"], 1);
        process.requeued_pods.add(["ok"], 1);
        process.tls_handshake_failures.add(["without_tls"], 1);
        process.certificates.set(|| vec![(["a".to_owned(), "b".to_owned()], 1.0)]);
        process.overrides.set(|| vec![(["zones".to_owned(), "Shadow".to_owned()], 1.0)]);
        process.reject_limits.set(|| vec![("zones".to_owned(), true)]);
        process.backends.set(|| vec![state("zones", Some(1.0))]);
        for gauge in [
            &process.call_thread_silence,
            &process.waiting_calls,
            &process.configuration_rejected,
            &process.oldest_untried_pod,
            &process.known_nodes,
            &process.nodes_synced,
            &process.nodes_watch_failing,
            &process.nodes_silence,
            &process.unreadable_nodes,
            &process.unreadable_pods,
            &process.reduced_pods,
            &process.known_pods,
            &process.pods_synced,
            &process.pods_watch_failing,
            &process.pods_silence,
            &process.decision_log_bytes,
            &process.decision_log_limit,
            &process.decision_log_calls,
            &process.decision_log_pods,
            &process.configuration_generation,
            &process.configuration_loaded,
        ] {
            gauge.set(|| Some(1.0));
        }
    }
}

/// A backend that three pods wait for.
fn state(name: &str, connected: Option<f64>) -> (String, BackendState) {
    (
        name.to_owned(),
        BackendState {
            connected,
            waiting_pods: 3,
            waiting_workloads: 2,
            waiting_calls: 0,
            oldest_waiting_pod: 60.0,
            rejects_configuration: true,
            addresses: 2,
            open_circuits: PolicyVerb::ALL.map(|verb| (verb, 1)).to_vec(),
        },
    )
}

/// A backend with all verbs.
fn configured(name: &str) -> BackendSettings {
    let verbs = "filter: {}, score: {}, preempt: {}, bind: {}";
    let yaml = format!("- {{name: {name}, url: 'http://127.0.0.1:1', {verbs}}}\nbinder: BuiltIn\n");
    samples::config(&yaml).backends.remove(0)
}

/// Whether the text has this line.
#[track_caller]
fn has(metrics: &Metrics, line: &str) {
    let text = metrics.text();
    assert!(
        text.lines().any(|known| known == format!("extender_gateway_{line}")),
        "{line} is not in\n{text}"
    );
}

fn series(metrics: &Metrics) -> usize {
    metrics.text().lines().filter(|line| !line.starts_with('#')).count()
}

#[test]
fn what_was_counted_can_be_read() {
    let metrics = Metrics::new();
    metrics.verb(Some(Verb::Filter)).answered(CallOutcome::Ok, Duration::ZERO, None);
    metrics.backend("racks").verbs[PolicyVerb::Score].not_sent((FailureKind::Late, None));
    metrics.backend("racks").clamped.inc_by(3);
    metrics.process().unknown_nodes.inc_by(2);
    metrics.panicked();
    metrics.process().untracked_reasons.inc_by(7);
    metrics.process().uncounted_refusals.inc();
    for line in [
        r#"calls_total{verb="filter",outcome="ok"} 1"#,
        r#"backend_failures_total{backend="racks",verb="score",kind="late",policy="none"} 1"#,
        r#"backend_clamped_scores_total{backend="racks"} 3"#,
        "unknown_nodes_total 2",
        "panics_total 1",
        "untracked_reasons_total 7",
        "uncounted_refusals_total 1",
    ] {
        has(&metrics, line);
    }
}

#[test]
fn the_first_rejected_configuration_is_an_increase() {
    let metrics = Metrics::new();
    let of = |outcome: &str, count: u64| {
        has(&metrics, &format!(r#"configuration_reloads_total{{outcome="{outcome}"}} {count}"#));
    };
    of("ok", 0);
    of("refused", 0);
    metrics.process().configuration_reloads.add(["refused"], 1);
    of("refused", 1);
}

#[test]
fn a_verb_is_recorded_by_its_handle() {
    let metrics = Metrics::new();
    let filter = metrics.verb(Some(Verb::Filter));
    assert_eq!((filter.calls(), filter.failures(), filter.recent()), (0, 0, None));
    let call = filter.begin();
    has(&metrics, r#"calls_in_flight{verb="filter"} 1"#);
    drop(call);
    filter.answered(CallOutcome::Ok, Duration::from_micros(150), None);
    metrics.verb(Some(Verb::Filter)).answered(
        CallOutcome::Backend,
        Duration::from_millis(2),
        Some([0xab; 16]),
    );
    filter.count_nodes(420, 400);
    filter.count_bytes(12_000, 800);
    for line in [
        r#"calls_in_flight{verb="filter"} 0"#,
        r#"calls_total{verb="filter",outcome="ok"} 1"#,
        r#"calls_total{verb="filter",outcome="backend"} 1"#,
        r#"call_duration_seconds_bucket{le="0.0001",verb="filter"} 0"#,
        r#"call_duration_seconds_bucket{le="0.0002",verb="filter"} 1"#,
        r#"call_duration_seconds_bucket{le="13.1072",verb="filter"} 2"#,
        r#"call_duration_seconds_sum{verb="filter"} 0.00215"#,
        r#"offered_nodes_total{verb="filter"} 420"#,
        r#"left_nodes_total{verb="filter"} 400"#,
        r#"request_bytes_total{verb="filter"} 12000"#,
        r#"response_bytes_total{verb="filter"} 800"#,
    ] {
        has(&metrics, line);
    }
    let exemplar = format!(r#"{{le="0.0032",verb="filter"}} 2 # {{trace_id="{}"}} 0.002 "#, "ab".repeat(16));
    assert!(metrics.text().contains(&exemplar));
    let (recent, median) = (filter.recent().unwrap(), Some(0.00015));
    assert_eq!((filter.calls(), filter.failures()), (2, 1));
    assert_eq!((recent.calls, recent.failed(), recent.median_seconds), (2, 1, median));
}

#[test]
fn a_backend_is_recorded_by_its_handle() {
    let metrics = Metrics::new();
    let backend = metrics.backend("zones");
    backend.count_rejected("in drain", 100);
    backend.record_share(PolicyVerb::Filter, 100, 400);
    backend.record_share(PolicyVerb::Filter, 0, 0);
    backend.clamped.inc_by(7);
    let score = BackendSettings { filter: None, ..configured("zones") };
    backend.configure(&BackendSettings { preempt: None, bind: None, ..score });
    let zones = &backend.verbs[PolicyVerb::Filter];
    zones.asked(400);
    zones.answered(Duration::from_millis(1), None);
    zones.asked(20);
    zones.failed((FailureKind::Late, Some(OnFailure::Ignore)), Duration::from_millis(200), None);
    zones.not_sent((FailureKind::Unreachable, Some(OnFailure::Fail)));
    zones.prefetched.inc_by(3);
    zones.shadowed(Agreement::Disagrees);
    zones.count_bytes(5_000, 90);
    for line in [
        r#"backend_calls_total{backend="zones",verb="filter"} 2"#,
        r#"backend_asked_nodes_total{backend="zones",verb="filter"} 420"#,
        r#"backend_call_duration_seconds_count{backend="zones",verb="filter"} 2"#,
        r#"backend_failures_total{backend="zones",verb="filter",kind="late",policy="ignore"} 1"#,
        r#"backend_failures_total{backend="zones",verb="filter",kind="unreachable",policy="fail"} 1"#,
        r#"backend_rejected_nodes_total{backend="zones",reason="in drain"} 100"#,
        r#"backend_rejected_ratio_bucket{le="0.25",backend="zones"} 1"#,
        r#"backend_rejected_ratio_count{backend="zones"} 1"#,
        r#"backend_clamped_scores_total{backend="zones"} 7"#,
        r#"backend_known_nodes_total{backend="zones",verb="filter",source="early"} 3"#,
        r#"backend_known_nodes_total{backend="zones",verb="filter",source="remembered"} 0"#,
        r#"backend_shadow_answers_total{backend="zones",verb="filter",outcome="disagrees"} 1"#,
        r#"backend_sent_bytes_total{backend="zones",verb="filter"} 5000"#,
        r#"backend_received_bytes_total{backend="zones",verb="filter"} 90"#,
    ] {
        has(&metrics, line);
    }
    has(&metrics, r#"backend_calls_total{backend="zones",verb="score"} 0"#);
    let page = metrics.text();
    assert!(!page.contains(r#"backend="zones",verb="preempt""#), "it does not have this verb");
    let recent = zones.recent().unwrap();
    assert_eq!((zones.calls(), zones.failures(), recent.calls, recent.failed()), (2, 2, 3, 2));
    assert_eq!(zones.recent_rejected_share(), Some(0.25));
    assert_eq!(backend.verbs[PolicyVerb::Score].recent_rejected_share(), None);
}

#[test]
fn a_backend_that_is_gone_leaves_nothing_and_may_come_back() {
    let metrics = Metrics::new();
    let empty = series(&metrics);
    for reload in 0..100 {
        let names = [format!("a{reload}"), format!("b{reload}")];
        for name in &names {
            let backend = metrics.backend(name);
            backend.count_rejected("no", 1);
            backend.verbs[PolicyVerb::Filter].not_sent((FailureKind::Reset, Some(OnFailure::Fail)));
        }
        metrics.retain_backends(&names.each_ref().map(String::as_str));
    }
    let (old, one) = (metrics.backend("a99"), series(&metrics) - empty);
    metrics.retain_backends(&[]);
    assert_eq!(series(&metrics), empty, "the last two had {one}");
    old.count_rejected("another reason", 1);
    old.verbs[PolicyVerb::Filter].asked(7);
    old.verbs[PolicyVerb::Filter].not_sent((FailureKind::Late, Some(OnFailure::Fail)));
    old.verbs[PolicyVerb::Filter].shadowed(Agreement::Agrees);
    assert_eq!(series(&metrics), empty, "a call of before ends");
    metrics.backend("a99").verbs[PolicyVerb::Filter].asked(5);
    has(&metrics, r#"backend_asked_nodes_total{backend="a99",verb="filter"} 5"#);
    metrics.retain_backends(&["a99"]);
    metrics.backend("a99").verbs[PolicyVerb::Filter].asked(1);
    has(&metrics, r#"backend_asked_nodes_total{backend="a99",verb="filter"} 6"#);
}

#[test]
fn a_gauge_is_what_its_latest_owner_says() {
    let metrics = Arc::new(Metrics::new());
    let known_nodes = &metrics.process().known_nodes;
    known_nodes.set(|| Some(1.0));
    // A source may read the metrics: no lock is held while it is called.
    let seen = Arc::clone(&metrics);
    known_nodes.set(move || (seen.verb(Some(Verb::Filter)).calls() == 0).then_some(2.5));
    has(&metrics, "known_nodes 2.5");
    known_nodes.set(|| None);
    assert!(!metrics.text().contains("extender_gateway_known_nodes"));
    metrics.process().backends.set(|| vec![state("zones", Some(1.5)), state("racks", None)]);
    has(&metrics, r#"backend_connected_timestamp_seconds{backend="zones"} 1.5"#);
    assert!(!metrics.text().contains(r#"connected_timestamp_seconds{backend="racks"}"#));
    has(&metrics, r#"backend_waiting_pods{backend="racks"} 3"#);
    has(&metrics, r#"backend_configuration_rejected{backend="racks"} 1"#);
    has(&metrics, r#"backend_waiting_workloads{backend="racks"} 2"#);
    has(&metrics, r#"backend_open_circuits{backend="racks",verb="score"} 1"#);
    has(&metrics, r#"backend_oldest_waiting_pod_seconds{backend="racks"} 60.0"#);
    has(&metrics, r#"backend_connected{backend="zones"} 1"#);
    has(&metrics, r#"backend_connected{backend="racks"} 0"#);
}

#[test]
fn series_are_bounded_whatever_is_said() {
    let metrics = Metrics::new();
    for number in 0..3_000 {
        let word: &'static str = format!("made up {number}").leak();
        metrics.verb(None).answered(CallOutcome::Ok, Duration::from_millis(number), None);
        metrics.backend("zones").verbs[PolicyVerb::Filter].asked(1);
        metrics.backend("zones").count_rejected(word, 1);
    }
    has(&metrics, r#"calls_total{verb="none",outcome="ok"} 3000"#);
    has(&metrics, r#"backend_rejected_nodes_total{backend="zones",reason="other"} 2980"#);
    assert!(series(&metrics) < 350, "{}", series(&metrics));
}

#[test]
fn a_backend_has_at_most_as_many_series_as_the_documentation_says() {
    use FailureKind::{
        CircuitOpen, Internal, Late, Malformed, Overloaded, Oversize, Reset, Status, Unreachable, Unsuitable,
    };
    let metrics = Metrics::new();
    let empty = series(&metrics);
    let backend = metrics.backend("zones");
    backend.configure(&configured("zones"));
    for (_, verb) in backend.verbs.iter() {
        for kind in [
            Late,
            Malformed,
            Oversize,
            Reset,
            Status,
            Unreachable,
            Unsuitable,
            CircuitOpen,
            Overloaded,
            Internal,
        ] {
            let policies = [OnFailure::Fail, OnFailure::Ignore, OnFailure::Next];
            for policy in policies.map(Some).into_iter().chain([None]) {
                verb.not_sent((kind, policy));
            }
        }
        let opinions = [Agreement::Agrees, Agreement::Disagrees, Agreement::Failed];
        for opinion in opinions {
            verb.shadowed(opinion);
        }
    }
    (0..30).for_each(|number| backend.count_rejected(&format!("rack {number}"), 1));
    metrics.process().backends.set(|| vec![state("zones", Some(1.0))]);
    assert_eq!(series(&metrics) - empty, 344 + 3 * 75);
}

/// A metric as the page shows it.
#[derive(Debug)]
struct Shown<'p> {
    name: String,
    help: &'p str,
    kind: &'p str,
    labels: Vec<&'p str>,
}

impl<'p> Shown<'p> {
    /// All metrics of a page on which every metric has a series.
    fn all(page: &'p str) -> Vec<Self> {
        let families = page.split("# HELP ").skip(1);
        families.map(|family| Self::read(family).unwrap_or_else(|| panic!("{family}"))).collect()
    }

    fn read(family: &'p str) -> Option<Self> {
        let (name, help) = family.lines().next()?.split_once(' ')?;
        let kind = family.lines().find_map(|line| line.strip_prefix("# TYPE ")?.split(' ').nth(1))?;
        let series =
            family.lines().skip(1).find(|line| !line.starts_with('#') && !line.contains("_bucket{"))?;
        assert!(series.starts_with(name), "{family}");
        let labels = series.split_once('{').map_or("", |(_, labels)| labels).split('}').next()?;
        let labels = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0)).collect();
        let suffix = if kind == "counter" { "_total" } else { "" };
        Some(Self { name: format!("{name}{suffix}"), help, kind, labels })
    }

    /// Its row of the table in `docs/metrics.md`.
    fn row(&self) -> String {
        let Self { name, help, kind, labels } = self;
        let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
        format!("| `{name}` | {kind} | {} | {help} |", labels.join(", "))
    }
}

fn page_of_everything() -> String {
    let metrics = Metrics::new();
    metrics.record_everything();
    metrics.text()
}

#[test]
fn names_are_what_prometheus_wants() {
    let page = page_of_everything();
    for Shown { name, help, labels, .. } in Shown::all(&page) {
        // Other programs have these, too.
        let is_common = name.starts_with("process_") && labels.is_empty();
        assert!(name.starts_with("extender_gateway_") || is_common, "{name}");
        assert_eq!(name.starts_with("extender_gateway_backend_"), labels.contains(&"backend"), "{name}");
        assert!(!help.is_empty() && !help.ends_with('.'), "{name}");
        assert!(!help.contains(['\\', '"', '|']), "{name}: nothing that a format would escape");
    }
}

#[test]
fn the_documentation_has_the_same_table() {
    let documented = include_str!("../../../../docs/metrics.md").lines();
    let is_metric =
        |line: &&str| ["| `extender_gateway_", "| `process_"].iter().any(|start| line.starts_with(start));
    let documented: Vec<_> = documented.filter(is_metric).collect();
    let page = page_of_everything();
    let expected: Vec<_> = Shown::all(&page).iter().map(Shown::row).collect();
    assert!(documented == expected, "docs/metrics.md should have\n{}", expected.join("\n"));
}

#[test]
fn units_are_those_of_the_names() {
    let page = page_of_everything();
    let units: Vec<_> = page.lines().filter_map(|line| line.strip_prefix("# UNIT ")).collect();
    assert!(units.contains(&"extender_gateway_call_duration_seconds seconds"), "{units:?}");
    assert!(units.contains(&"extender_gateway_request_bytes bytes"), "{units:?}");
    assert!(units.contains(&"extender_gateway_backend_rejected_ratio ratio"), "{units:?}");
}
