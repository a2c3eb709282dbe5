use extender_gateway_core::{PolicyVerb, score::Direction};
use extender_gateway_object::view::KeyPrefixes;
use extender_gateway_settings::{Config, Normalize, ScoreSettings, Weight};
use extender_policy_api::v1beta1::{
    self as api, ChangedPart, Effects, GetInfoResponse, MapReads, NodePart, NodeReads, PodCountReads,
    PodPart, PodReads, Reads, Scope, TopologyCountReads, Verb, VerbInfo,
};

use std::path::Path;

use prost::Message;

use super::*;

/// Reads a handshake as the gateway gets it.
fn read(response: &GetInfoResponse, settings: &config::BackendSettings, known: &ClusterTables) -> Info {
    let handshake = Handshake::read(&response.encode_to_vec(), ApiVersion::NEWEST).unwrap();
    Info::read(handshake, settings, known)
}

fn known(source: NodeSource) -> ClusterTables {
    ClusterTables { source, table: None, offered: Arc::new(NodeTable::of_calls()), pods: None }
}

fn everything() -> NodeReads {
    NodeReads { everything: true, ..NodeReads::default() }
}

/// Parts of nodes alone.
fn node_parts(parts: &[i32]) -> NodeReads {
    NodeReads { parts: parts.to_vec(), ..NodeReads::default() }
}

/// A verb that reads everything of nodes.
fn verb(verb: Verb) -> VerbInfo {
    let reads = Some(Reads { pod: None, node: Some(everything()) });
    VerbInfo { verb: verb as i32, reads, scope: Scope::Node as i32, ..Default::default() }
}

fn response(verbs: Vec<VerbInfo>) -> GetInfoResponse {
    GetInfoResponse { api_version: ApiVersion::NEWEST.package().into(), verbs, ..Default::default() }
}

#[test]
fn outcomes_are_for_backends_that_serve_the_newest_package() {
    let settings = configured("filter: {}");
    for (api, service, expected) in [
        (ApiVersion::NEWEST, "OutcomeService", true),
        (ApiVersion::NEWEST, "HookService", false),
        (ApiVersion::V1Alpha1, "OutcomeService", false),
    ] {
        let services = vec![format!("{}.{service}", api.package())];
        let response = GetInfoResponse { services, ..response(vec![verb(Verb::Filter)]) };
        let handshake = Handshake::read(&response.encode_to_vec(), api).unwrap();
        let info = Info::read(handshake, &settings, &known(NodeSource::Request));
        assert_eq!(info.takes_outcomes, expected, "{api:?} {service}");
    }
}

fn settings(normalize: Option<Normalize>, reversed: Option<bool>) -> ScoreSettings {
    let weight = Weight::new(1).unwrap();
    ScoreSettings {
        timeout: std::time::Duration::from_millis(200),
        weight,
        normalize,
        reversed,
        failure_policy: "Ignore",
    }
}

/// A backend with these verbs configured.
fn configured(verbs: &str) -> config::BackendSettings {
    let binder = if verbs.contains("bind") { "racks" } else { "None" };
    let yaml = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\nextender: {{address: 127.0.0.1:0}}\n\
         binder: {binder}\nbackends:\n- {{name: racks, url: 'http://127.0.0.1:9000', {verbs}}}\n"
    );
    Config::parse(&yaml, Path::new(".")).unwrap_or_else(|mistakes| panic!("{mistakes}")).backends.remove(0)
}

fn hook(verb: Verb, changes: &[ChangedPart]) -> VerbInfo {
    VerbInfo {
        verb: verb.into(),
        reads: Some(Reads { pod: None, node: (verb != Verb::BeforeFilter).then(everything) }),
        scope: Scope::Node.into(),
        changes: changes.iter().map(|part| (*part).into()).collect(),
        ..VerbInfo::default()
    }
}

/// Why a hook cannot be used, if the handshake lists these services.
fn refusal(info: &VerbInfo, services: &[&str]) -> Option<String> {
    let services = services.iter().map(|service| (*service).to_owned()).collect();
    let response = GetInfoResponse { services, ..response(vec![info.clone()]) };
    let settings = configured("beforeFilter: {}, beforeFilterNodes: {}, beforeScore: {}");
    let verb = match info.verb() {
        Verb::BeforeFilter => PolicyVerb::BeforeFilter,
        Verb::BeforeFilterNodes => PolicyVerb::BeforeFilterNodes,
        _ => PolicyVerb::BeforeScore,
    };
    let read = read(&response, &settings, &known(NodeSource::Request));
    read.refusal(verb).map(|failure| failure.detail.clone())
}

#[test]
fn a_hook_that_cannot_be_used_says_why() {
    let of_pod = || hook(Verb::BeforeFilter, &[ChangedPart::PodLabels, ChangedPart::PodRequests]);
    let of_nodes = || hook(Verb::BeforeFilterNodes, &[ChangedPart::NodeTaints]);
    let of_score = || hook(Verb::BeforeScore, &[ChangedPart::NodeUsage, ChangedPart::PodLabels]);
    for info in [of_pod(), of_nodes(), of_score(), VerbInfo { effects: Effects::Pure.into(), ..of_pod() }] {
        assert_eq!(refusal(&info, &[HOOK_SERVICE]), None);
    }
    for (info, sentence) in [
        (hook(Verb::BeforeFilter, &[]), "declares beforeFilter, and nothing that it changes"),
        (
            hook(Verb::BeforeFilter, &[ChangedPart::NodeLabels]),
            "declares that beforeFilter changes node labels, but it is about the pod alone",
        ),
        (
            hook(Verb::BeforeFilterNodes, &[ChangedPart::PodTolerations]),
            "declares that beforeFilterNodes changes pod tolerations, but it is about nodes alone",
        ),
        (
            hook(Verb::BeforeFilterNodes, &[ChangedPart::NodeTaints, ChangedPart::NodeTaints]),
            "declares that beforeFilterNodes changes node taints twice",
        ),
        (
            VerbInfo { changes: vec![77], ..of_nodes() },
            "declares that beforeFilterNodes changes part 77, which this gateway version does not support",
        ),
        (
            VerbInfo { changes: vec![0], ..of_nodes() },
            "declares that beforeFilterNodes changes part 0, which this gateway version does not support",
        ),
        (
            VerbInfo { effects: Effects::Pure.into(), ..of_score() },
            "declares that beforeScore changes pod labels, and that it is pure; these are mutually exclusive",
        ),
        (
            VerbInfo { effects: Effects::ChangesOutside.into(), ..of_nodes() },
            "declares that beforeFilterNodes has side effects, which hooks cannot have",
        ),
        (
            VerbInfo { effects: Effects::Pure.into(), scope: Scope::WholeSet.into(), ..of_nodes() },
            "declares beforeFilterNodes pure and also depends on the whole set of nodes; these are mutually exclusive",
        ),
        (
            VerbInfo { reads: None, ..of_nodes() },
            "does not declare what beforeFilterNodes reads; set VerbInfo.reads, if empty",
        ),
    ] {
        assert_eq!(refusal(&info, &[HOOK_SERVICE]).as_deref(), Some(sentence));
    }
    assert_eq!(
        refusal(&of_nodes(), &[]).as_deref(),
        Some(
            "declares beforeFilterNodes without the service extender.policy.v1beta1.HookService in `services`"
        )
    );
}

#[test]
fn a_hook_reads_no_topology_counts_and_one_of_the_pod_no_nodes() {
    let of_pod = || hook(Verb::BeforeFilter, &[ChangedPart::PodLabels]);
    let unread = NodeReads {
        labels: Some(MapReads { keys: vec!["a".into()], ..MapReads::default() }),
        ..NodeReads::default()
    };
    let reads = |reads: Reads| VerbInfo { reads: Some(reads), ..of_pod() };
    let counts = TopologyCountReads { by: 1, ..TopologyCountReads::default() };
    let counting = PodReads { topology_counts: vec![counts], ..PodReads::default() };
    for (info, sentence) in [
        (
            reads(Reads { node: Some(unread), ..Reads::default() }),
            "declares that beforeFilter reads nodes, but is about the pod alone",
        ),
        (
            reads(Reads { pod: Some(counting), ..Reads::default() }),
            "declares that beforeFilter reads topology counts of pods, which only filter and score can read",
        ),
    ] {
        assert_eq!(refusal(&info, &[HOOK_SERVICE]).as_deref(), Some(sentence));
    }
}

#[test]
fn a_verb_that_cannot_be_used_says_why() {
    let request = || known(NodeSource::Request);
    let filter = || verb(Verb::Filter);
    for (response, known, sentence) in [
        (response(vec![]), request(), "does not serve filter; remove filter from its configuration"),
        (
            GetInfoResponse { api_version: "v9".into(), ..response(vec![filter()]) },
            request(),
            "implements API \"v9\"; this gateway supports \"extender.policy.v1beta1\" and \"extender.policy.v1alpha1\"",
        ),
        (
            GetInfoResponse { requires: vec!["usage".into()], ..response(vec![filter()]) },
            request(),
            "requires \"usage\", which this gateway version does not support",
        ),
        (
            response(vec![VerbInfo { reads: None, ..filter() }]),
            request(),
            "does not declare what filter reads; set VerbInfo.reads, if empty",
        ),
        (
            response(vec![filter()]),
            known(NodeSource::NamesOnly),
            "needs facts about nodes, which nodes.source: NamesOnly does not provide; set Watch, Request or File",
        ),
    ] {
        let info = read(&response, &configured("filter: {}"), &known);
        assert_eq!(info.about_nodes(PolicyVerb::Filter).unwrap_err().detail, sentence);
    }
}

#[test]
fn only_a_per_node_verb_without_side_effects_is_asked_at_once() {
    for (scope, side_effects, turn) in [
        (Scope::Node, false, Turn::Parallel),
        (Scope::Node, true, Turn::InTurn),
        (Scope::WholeSet, false, Turn::InTurn),
        (Scope::Unspecified, false, Turn::InTurn),
    ] {
        let effects = if side_effects { Effects::ChangesOutside } else { Effects::Unspecified }.into();
        let filter = VerbInfo { scope: scope as i32, effects, ..verb(Verb::Filter) };
        let info = read(&response(vec![filter]), &configured("filter: {}"), &known(NodeSource::Request));
        assert_eq!(info.about_nodes(PolicyVerb::Filter).unwrap().turn, turn, "{scope:?} {side_effects}");
    }
}

#[test]
fn the_operator_may_override_how_scores_are_normalized() {
    use api::Normalization as Declared;
    let (largest, least) = (Direction::LargestIsBest, Direction::LeastIsBest);
    let range = "normalization Range requires score_min < score_max";
    for (declared, bounds, reversed, settings, expected) in [
        (Declared::Unspecified, None, false, settings(None, None), Ok(Normalization::None)),
        (Declared::Max, None, true, settings(None, None), Ok(Normalization::Max(least))),
        (Declared::Max, None, true, settings(None, Some(false)), Ok(Normalization::Max(largest))),
        (
            Declared::None,
            Some((0, 5)),
            false,
            settings(Some(Normalize::Range), None),
            Ok(Normalization::Range(largest)),
        ),
        (
            Declared::None,
            None,
            false,
            settings(Some(Normalize::MinMax), Some(true)),
            Ok(Normalization::MinMax(least)),
        ),
        (Declared::Range, None, false, settings(None, None), Err(range)),
        (Declared::Range, Some((5, 5)), false, settings(None, None), Err(range)),
        (
            Declared::None,
            None,
            true,
            settings(None, None),
            Err("declares reversed scores without a normalization"),
        ),
        (
            Declared::None,
            Some((5, 4)),
            false,
            settings(None, None),
            Err("declares an empty score range, 5 to 4"),
        ),
    ] {
        let score = VerbInfo {
            normalization: declared as i32,
            score_min: bounds.map(|(least, _)| least),
            score_max: bounds.map(|(_, largest)| largest),
            reversed,
            ..verb(Verb::Score)
        };
        let backend = config::BackendSettings { score: Some(settings), ..configured("filter: {}") };
        let info = read(&response(vec![score]), &backend, &known(NodeSource::Request));
        let read = info.score().map(|plan| plan.normalization).map_err(|failure| failure.detail.clone());
        assert_eq!(read, expected.map_err(str::to_owned), "{declared:?}");
    }
}

#[test]
fn scores_that_outweigh_plugins_are_noticed() {
    use api::Normalization as Declared;
    for (declared, largest, normalize, expected) in [
        (Declared::None, Some(10), None, None),
        (Declared::None, Some(11), None, Some("its scores reach 11, are not normalized, and count 10 times")),
        (Declared::Unspecified, None, None, Some("its scores have no bound, are not normalized")),
        (Declared::Range, Some(100), None, None),
        (Declared::None, Some(100), Some(Normalize::Range), None),
        (Declared::Range, Some(100), Some(Normalize::None), Some("its scores reach 100")),
    ] {
        let score = VerbInfo {
            normalization: declared as i32,
            score_min: largest.map(|_| 0),
            score_max: largest,
            ..verb(Verb::Score)
        };
        let settings = settings(normalize, None);
        let backend = config::BackendSettings { score: Some(settings), ..configured("filter: {}") };
        let info = read(&response(vec![score]), &backend, &known(NodeSource::Request));
        let said = info.unscaled_scores().map(|scores| scores.to_string());
        let fits = match (&said, expected) {
            (None, None) => true,
            (Some(said), Some(expected)) => said.starts_with(expected),
            _ => false,
        };
        assert!(fits, "{declared:?} {largest:?} {normalize:?}: {said:?}");
    }
}

#[test]
fn preempt_calls_bring_no_nodes() {
    let table = || Some(Arc::new(NodeTable::new()));
    let preempt = |node: NodeReads| VerbInfo { verb: Verb::Preempt.into(), ..of_nodes(node) };
    let name = || node_parts(&[NodePart::Name.into()]);
    let facts =
        "needs facts about nodes, which preempt calls do not contain; set nodes.source to Watch or File";
    for (verbs, known, expected) in [
        (vec![preempt(name())], known(NodeSource::Request), Ok(RowView::Name)),
        (vec![preempt(name())], known(NodeSource::NamesOnly), Ok(RowView::Name)),
        (vec![preempt(NodeReads::default())], known(NodeSource::NamesOnly), Ok(RowView::Nothing)),
        (vec![preempt(everything())], known(NodeSource::Request), Err(facts)),
        (
            vec![preempt(everything())],
            ClusterTables { table: table(), ..known(NodeSource::Watch) },
            Ok(RowView::Facts(KeyPrefixes::default().into())),
        ),
        (
            vec![verb(Verb::Filter)],
            known(NodeSource::Request),
            Err("does not serve preempt; remove preempt from its configuration"),
        ),
    ] {
        let info = read(&response(verbs), &configured("preempt: {}"), &known);
        let view = info.about_nodes(PolicyVerb::Preempt);
        let view = view.map(|plan| plan.nodes.rows.clone()).map_err(|failure| failure.detail.clone());
        assert_eq!(view, expected.map_err(str::to_owned));
    }
}

#[test]
fn rows_are_kept_for_configured_verbs_alone() {
    let raw = |wanted: Verb| {
        let node = NodeReads { parts: vec![NodePart::RawJson.into()], ..everything() };
        VerbInfo { verb: wanted.into(), ..of_nodes(node) }
    };
    let named = of_nodes(node_parts(&[NodePart::Name.into()]));
    let table = Arc::new(NodeTable::new());
    let known = ClusterTables { table: Some(Arc::clone(&table)), ..known(NodeSource::Watch) };
    let response = response(vec![named, raw(Verb::Score), raw(Verb::Preempt)]);
    let read = |verbs| read(&response, &configured(verbs), &known);
    let filtering = read("filter: {}");
    assert_eq!((table.columns(), known.offered.columns()), (1, 1));
    assert!(!*table.raw_wanted().borrow(), "the JSON of nodes is not kept for a verb that is never asked");
    assert!(
        filtering.refusal(PolicyVerb::Score).is_some() && filtering.refusal(PolicyVerb::Preempt).is_some()
    );
    let scoring = read("filter: {}, score: {weight: 1}");
    assert!(scoring.score().is_ok() && *table.raw_wanted().borrow());
    assert_eq!(table.columns(), 2);
}

#[test]
fn a_backend_that_wants_other_annotations_each_time_leaves_no_rows_behind() {
    let table = Arc::new(NodeTable::new());
    for number in 0..20 {
        table.apply(format!(r#"{{"metadata":{{"name":"n{number}"}}}}"#).as_bytes()).unwrap();
    }
    let known = ClusterTables { table: Some(Arc::clone(&table)), ..known(NodeSource::Watch) };
    let mut latest = None;
    for number in 0..200 {
        let annotations = Some(map(&[], &[&format!("example.com/{number}")]));
        let reading = |verb: Verb| VerbInfo {
            verb: verb.into(),
            ..of_nodes(NodeReads { annotations: annotations.clone(), ..everything() })
        };
        let response = response([Verb::Filter, Verb::Score, Verb::Preempt].map(reading).into());
        // The old one is used until the new one exists.
        let next = read(&response, &configured("filter: {}, score: {weight: 1}, preempt: {}"), &known);
        assert!(table.columns() <= 2 && known.offered.columns() <= 2, "after {number} handshakes");
        latest = Some(next);
    }
    drop(latest);
    assert_eq!((table.columns(), known.offered.columns()), (0, 0));
}

fn declaring(reads: Reads) -> VerbInfo {
    VerbInfo { reads: Some(reads), ..verb(Verb::Filter) }
}

fn map(keys: &[&str], prefixes: &[&str]) -> MapReads {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    MapReads { keys: owned(keys), prefixes: owned(prefixes) }
}

fn of_pods(pod: PodReads) -> VerbInfo {
    declaring(Reads { pod: Some(pod), ..Reads::default() })
}

/// Pods counted on nodes, by what and by which label.
fn on_nodes(counts: &[(i32, &str)]) -> VerbInfo {
    let count =
        |(by, label): &(i32, &str)| PodCountReads { by: *by, label: (*label).to_owned(), requests: false };
    of_nodes(NodeReads { pod_counts: counts.iter().map(count).collect(), ..NodeReads::default() })
}

/// Pods counted over a topology, by what, by which label, and by which label of nodes.
fn over_topologies(counts: &[(i32, &str, &str)]) -> VerbInfo {
    let count = |(by, label, key): &(i32, &str, &str)| TopologyCountReads {
        by: *by,
        label: (*label).to_owned(),
        topology_key: (*key).to_owned(),
        requests: false,
    };
    of_pods(PodReads { topology_counts: counts.iter().map(count).collect(), ..PodReads::default() })
}

fn of_nodes(node: NodeReads) -> VerbInfo {
    declaring(Reads { node: Some(node), ..Reads::default() })
}

#[test]
fn a_declaration_that_cannot_be_used_says_why() {
    let labels = |keys: &[&str], prefixes: &[&str]| {
        of_nodes(NodeReads { labels: Some(map(keys, prefixes)), ..NodeReads::default() })
    };
    let pod_parts = |parts: &[i32]| of_pods(PodReads { parts: parts.to_vec(), ..PodReads::default() });
    let node_parts = |parts: &[i32]| of_nodes(node_parts(parts));
    let identity = PodPart::Identity.into();
    for (verb, sentence) in [
        (pod_parts(&[77]), "part 77 of pods, which this gateway version does not support"),
        (pod_parts(&[0]), "part 0 of pods, which this gateway version does not support"),
        (pod_parts(&[-1]), "part -1 of pods, which this gateway version does not support"),
        (pod_parts(&[3, 2, 3]), "part 3 of pods twice"),
        (node_parts(&[77]), "part 77 of nodes, which this gateway version does not support"),
        (node_parts(&[1, 1]), "part 1 of nodes twice"),
        (labels(&[""], &[]), "labels of nodes with an empty key"),
        (
            labels(&["b", "a"], &[]),
            r#"labels of nodes with keys that are not in ascending order: "b" before "a""#,
        ),
        (
            labels(&["a", "a"], &[]),
            r#"labels of nodes with keys that are not in ascending order: "a" before "a""#,
        ),
        (
            labels(&["a", "b.io/x", "c"], &["a/", "b.io/"]),
            r#"labels of nodes with the key "b.io/x" and with the prefix "b.io/", which covers it"#,
        ),
        (
            labels(&["a"], &[""]),
            r#"labels of nodes with the key "a" and with the prefix "", which covers it"#,
        ),
        (
            of_pods(PodReads { annotations: Some(map(&["b", "a"], &[])), ..PodReads::default() }),
            r#"annotations of pods with keys that are not in ascending order: "b" before "a""#,
        ),
        (
            of_nodes(NodeReads {
                parts: vec![NodePart::Usage.into(), NodePart::Taints.into()],
                ..everything()
            }),
            "everything of nodes and part 1 of it, too; remove the part",
        ),
        (
            of_pods(PodReads { everything: true, labels: Some(map(&["a"], &[])), ..PodReads::default() }),
            "everything of pods and labels of it, too; remove the labels",
        ),
    ] {
        let info = read(&response(vec![verb]), &configured("filter: {}"), &known(NodeSource::Request));
        let expected = format!("declares that filter reads {sentence}");
        assert_eq!(info.about_nodes(PolicyVerb::Filter).unwrap_err().detail, expected);
    }
    let pure = VerbInfo { effects: Effects::Pure.into(), ..pod_parts(&[identity]) };
    let info = read(&response(vec![pure]), &configured("filter: {}"), &known(NodeSource::Request));
    let expected = "declares filter pure and also reads the identity of pods; these are mutually exclusive";
    assert_eq!(info.about_nodes(PolicyVerb::Filter).unwrap_err().detail, expected);
    let bind = VerbInfo { verb: Verb::Bind as i32, ..node_parts(&[1]) };
    let info = read(&response(vec![bind]), &configured("bind: {}"), &known(NodeSource::Request));
    let expected = "declares that bind reads nodes, but is about the pod alone";
    assert_eq!(info.bind().unwrap_err().detail, expected);
}

#[test]
fn a_verb_that_would_be_sent_less_than_it_wants_is_unsuitable() {
    for (part, what) in [(NodePart::Usage, "usage"), (NodePart::Nominated, "requests of nominated pods")] {
        let verb = of_nodes(NodeReads { parts: vec![part.into()], ..everything() });
        let info = read(&response(vec![verb]), &configured("filter: {}"), &known(NodeSource::Request));
        assert_eq!(
            info.about_nodes(PolicyVerb::Filter).unwrap_err().detail,
            format!("needs {what}, but pods are not watched; set pods.source: Watch")
        );
    }
    let preempt = VerbInfo { effects: Effects::Pure.into(), ..verb(Verb::Preempt) };
    let info = read(&response(vec![preempt]), &configured("preempt: {}"), &known(NodeSource::Request));
    assert_eq!(
        info.about_nodes(PolicyVerb::Preempt).unwrap_err().detail,
        "declares preempt pure, but its answers depend on the victims"
    );
}

#[test]
fn counts_that_cannot_be_used_say_why() {
    for (verb, sentence) in [
        (on_nodes(&[(9, "")]), "pod counts of nodes by 9, which this gateway version does not support"),
        (on_nodes(&[(3, "")]), "pod counts of nodes by a label without a key"),
        (
            on_nodes(&[(1, "app")]),
            r#"pod counts of nodes with the label key "app" by something else than a label"#,
        ),
        (
            on_nodes(&[(3, "b"), (3, "a")]),
            r#"pod counts of nodes that are not in ascending order: by 3 "b" before 3 "a""#,
        ),
        (on_nodes(&[(1, ""), (1, "")]), "pod counts of nodes by 1 twice"),
        (on_nodes(&[(1, ""); 9]), "9 pod counts of nodes; at most 8 are accepted"),
        (
            over_topologies(&[(1, "", "zone"), (1, "", "rack")]),
            r#"topology counts of pods that are not in ascending order: by 1 over "zone" before 1 over "rack""#,
        ),
        (
            over_topologies(&[(0, "", "")]),
            "topology counts of pods by 0, which this gateway version does not support",
        ),
        (over_topologies(&[(1, "", "rack"); 9]), "9 topology counts of pods; at most 8 are accepted"),
    ] {
        let info = read(&response(vec![verb]), &configured("filter: {}"), &known(NodeSource::Request));
        assert_eq!(
            info.about_nodes(PolicyVerb::Filter).unwrap_err().detail,
            format!("declares that filter reads {sentence}")
        );
    }
    for (wanted, of) in [(Verb::Bind, PolicyVerb::Bind), (Verb::Preempt, PolicyVerb::Preempt)] {
        let verb = VerbInfo { verb: wanted as i32, ..over_topologies(&[(1, "", "rack")]) };
        let info =
            read(&response(vec![verb]), &configured("preempt: {}, bind: {}"), &known(NodeSource::Request));
        let failure = info.refusal(of);
        let expected = format!(
            "declares that {} reads topology counts of pods, which only filter and score can read",
            of.name()
        );
        assert_eq!(failure.unwrap().detail, expected);
    }
}

#[test]
fn counts_need_a_watch_of_pods_and_over_a_topology_the_nodes() {
    let (table, pods) = (Arc::new(NodeTable::new()), Arc::new(PodTable::new()));
    let [nothing, only_pods, both] =
        [(None, None), (Some(&pods), None), (Some(&pods), Some(&table))].map(|(pods, table)| ClusterTables {
            pods: pods.cloned(),
            table: table.cloned(),
            ..known(if table.is_some() { NodeSource::Watch } else { NodeSource::Request })
        });
    let read = |verb: &VerbInfo, known: &ClusterTables| {
        let info = read(&response(vec![verb.clone()]), &configured("filter: {}"), known);
        let over_topologies =
            verb.reads.as_ref().unwrap().pod.is_some() && info.about_nodes(PolicyVerb::Filter).is_ok();
        assert_eq!(info.topologies().count(), usize::from(over_topologies), "only those are waited for");
        let words = info.reads_in_words(PolicyVerb::Filter);
        info.about_nodes(PolicyVerb::Filter).map_err(|failure| failure.detail.clone()).map(|_| words.unwrap())
    };
    let words = |pods: &str, nodes: &str| Ok((pods.to_owned(), nodes.to_owned()));
    let not_watched = |what| Err(format!("needs {what}, but pods are not watched; set pods.source: Watch"));
    let on_nodes = on_nodes(&[(1, ""), (3, "app")]);
    assert_eq!(read(&on_nodes, &nothing), not_watched("pod counts"));
    let counts = "pods by owner, pods by label app";
    assert_eq!(read(&on_nodes, &only_pods), words("nothing", counts));
    let over_topologies = over_topologies(&[(2, "", ""), (4, "", "rack")]);
    assert_eq!(read(&over_topologies, &nothing), not_watched("topology counts"));
    let sentence =
        "needs topology counts, for which all nodes must be known; set nodes.source to Watch or File";
    assert_eq!(read(&over_topologies, &only_pods), Err(sentence.to_owned()));
    let counts = "pods by namespace in the cluster, pods by priority class name in rack";
    assert_eq!(read(&over_topologies, &both), words(counts, "nothing"));
}

#[test]
fn a_prefix_that_covers_no_key_is_no_contradiction() {
    let reads =
        NodeReads { labels: Some(map(&["a", "b/x", "b0"], &["a/", "b/y", "c"])), ..NodeReads::default() };
    let verbs = vec![of_nodes(reads)];
    let info = read(&response(verbs), &configured("filter: {}"), &known(NodeSource::Request));
    let words = "label a, label b/x, label b0, labels a/*, labels b/y*, labels c*";
    assert_eq!(info.reads_in_words(PolicyVerb::Filter), Some(("nothing".to_owned(), words.to_owned())));
}

#[test]
fn equal_declarations_share_a_view_and_scores_come_with_filter_only_then() {
    let reads = |part: PodPart, key| Reads {
        pod: Some(PodReads { parts: vec![part.into()], ..PodReads::default() }),
        node: Some(NodeReads { labels: Some(map(&[key], &[])), ..NodeReads::default() }),
    };
    let (one, other) = (PodPart::Namespace, PodPart::Owner);
    let table = Arc::new(NodeTable::new());
    let known = ClusterTables { table: Some(Arc::clone(&table)), ..known(NodeSource::Watch) };
    for (of_score, views, scores) in [
        (reads(one, "zone"), 1, ScoresWanted::Wanted),
        (reads(other, "zone"), 1, ScoresWanted::Unwanted),
        (reads(one, "rack"), 2, ScoresWanted::Unwanted),
        (Reads { pod: None, node: Some(everything()) }, 2, ScoresWanted::Unwanted),
    ] {
        let score = VerbInfo { reads: Some(of_score), ..verb(Verb::Score) };
        let verbs = vec![declaring(reads(one, "zone")), score];
        let info = read(&response(verbs), &configured("filter: {}, score: {weight: 1}"), &known);
        assert_eq!((table.columns(), info.scores_with_filter), (views, scores));
    }
    let score =
        VerbInfo { reads: Some(reads(one, "zone")), effects: Effects::Pure.into(), ..verb(Verb::Score) };
    let verbs = vec![declaring(reads(one, "zone")), score];
    let info = read(&response(verbs), &configured("filter: {}, score: {weight: 1}"), &known);
    assert_eq!(
        info.scores_with_filter,
        ScoresWanted::Unwanted,
        "pure scores are cached, the verdicts are not"
    );
}
