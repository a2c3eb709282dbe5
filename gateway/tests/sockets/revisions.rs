//! Cached answers belong to what produced them: args, the configuration, and the backend's revision.

use std::{fs, time::Duration};

use crate::support::{
    Gateway, TEST_TIMEOUT,
    backend::configured,
    checking, eager,
    function::{Function, about, about_objects, labelled, pure, sibling},
    http::Client,
    program::{OWN, Program},
    reading,
    relay::{Relay, Revised},
    sdk::{self, Running, Seen},
    steady, until,
};
use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::{GetInfoResponse, PodPart, Scope};
use serde_json::{Value, json};
use tokio::time::timeout;

/// A gateway that knows the nodes a, b and c, in front of one backend.
async fn gateway(function: &Function, rest: &str) -> Gateway {
    paced(function, rest, steady()).await
}

async fn paced(function: &Function, rest: &str, cadences: Cadences) -> Gateway {
    let backend = configured("only", &function.backend, rest);
    let rest = format!(
        "nodes: {{source: Watch}}\ntimeouts: {{decision: 60s}}\nreasons: {{prefix: None}}\nbackends:\n{backend}"
    );
    let gateway = Gateway::start_paced(&rest, cadences).await;
    for node in ["a", "b", "c"] {
        gateway.table.apply(labelled(node, &json!({})).as_bytes()).unwrap();
    }
    gateway
}

const FILTER: &str = "filter: {timeout: 60s}";
const BOTH: &str = "filter: {timeout: 60s}, score: {timeout: 60s}";

async fn filter(gateway: &Gateway, names: &[&str]) -> Value {
    gateway.post("/filter", about(&sibling(1), names)).await.json()
}

/// Whether a check has found that filter is not pure.
fn has_disagreed(gateway: &Gateway) -> bool {
    let line = r#"extender_gateway_backend_memory_disagreements_total{backend="only",verb="filter"} 1"#;
    gateway.metrics.text().contains(line)
}

/// Calls until the backend gets one more request.
async fn until_asked(gateway: &Gateway, function: &Function, names: &[&str]) {
    let before = function.filtered().len();
    let asked = async {
        while function.filtered().len() == before {
            filter(gateway, names).await;
        }
    };
    timeout(TEST_TIMEOUT, asked).await.unwrap();
}

#[tokio::test]
async fn another_revision_in_the_handshake_forgets() {
    let function = Function::start(pure(reading::facts())).await;
    // However many calls there are until then, none of them is a check.
    let gateway = paced(&function, FILTER, eager()).await;
    filter(&gateway, &["a", "b"]).await;
    filter(&gateway, &["a", "b"]).await;
    assert_eq!(function.filtered().len(), 1);
    {
        let mut behaviour = function.state();
        behaviour.info = GetInfoResponse { revision: "r2".into(), ..pure(reading::facts()) };
        (behaviour.revision, behaviour.strict) = ("r2".into(), true);
    }
    // The backend gets no calls, so only the handshake can tell.
    until_asked(&gateway, &function, &["a", "b"]).await;
    assert_eq!(filter(&gateway, &["a", "b"]).await["NodeNames"], json!([]));
    assert_eq!(function.filtered(), [["a", "b"], ["a", "b"]], "and the new answers are remembered");
}

/// Waits until a handshake that began after this has been used.
async fn until_refreshed(function: &Function) {
    let before = function.backend.messages("GetInfo").len();
    // When the second one comes, the first one has been handled.
    until("no more handshakes", || function.backend.messages("GetInfo").len() >= before + 3).await;
}

#[tokio::test]
async fn a_change_of_views_that_comes_too_soon_still_ends_the_use_of_cached_answers() {
    let function = Function::start(pure(reading::facts())).await;
    let gateway = paced(&function, FILTER, eager()).await;
    // The first change of views is accepted, the second one comes too soon.
    for (revision, prefix) in [("r2", "two.example.com/"), ("r3", "three.example.com/")] {
        filter(&gateway, &["a", "b"]).await;
        {
            let mut state = function.state();
            let reads = reading::with_annotations(reading::facts(), prefix);
            state.info = GetInfoResponse { revision: revision.into(), ..pure(reads) };
            (state.revision, state.strict) = (revision.into(), revision == "r3");
        }
        until_refreshed(&function).await;
    }
    assert_eq!(filter(&gateway, &["a", "b"]).await["NodeNames"], json!([]), "the backend refuses all at r3");
}

#[tokio::test]
async fn an_answer_of_another_revision_ends_remembering_until_the_next_handshake() {
    let function = Function::start(pure(reading::facts())).await;
    let gateway = paced(&function, FILTER, eager()).await;
    filter(&gateway, &["a"]).await;
    let handshakes = function.hold_handshakes();
    function.state().revision = "r2".into();
    function.state().strict = true;
    let all = json!([]);
    assert_eq!(
        filter(&gateway, &["a", "b"]).await["NodeNames"],
        all,
        "two revisions make no answer together"
    );
    function.state().revision = "r1".into();
    function.state().strict = false;
    for _ in 0..2 {
        assert_eq!(filter(&gateway, &["a", "b"]).await["NodeNames"], json!(["a", "b"]));
    }
    let asked = [&["a"][..], &["b"], &["a", "b"], &["a", "b"], &["a", "b"]];
    assert_eq!(function.filtered(), asked, "each time while it is in doubt");
    handshakes.send(true).unwrap();
    let remembered = async {
        loop {
            let before = function.filtered().len();
            filter(&gateway, &["a", "b"]).await;
            if function.filtered().len() == before {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(TEST_TIMEOUT, remembered).await.expect("the handshake has found r1 again");
}

#[tokio::test]
async fn filter_answers_by_one_revision_whatever_is_remembered() {
    let (all, none) = (&["a", "b"][..], &[][..]);
    // What is cached of r1, which accepts, and the requests to r2, which refuses, when another revision answers.
    for (remembered, decided, asked) in [
        (none, none, &[all][..]),
        (&["a"], none, &[&["b"], all]),
        (&["b"], none, &[&["a"], all]),
        (all, all, &[]),
    ] {
        let function = Function::start(pure(reading::facts())).await;
        let gateway = gateway(&function, BOTH).await;
        if !remembered.is_empty() {
            filter(&gateway, remembered).await;
        }
        let before = function.filtered().len();
        let _held = function.hold_handshakes();
        function.state().revision = "r2".into();
        function.state().strict = true;
        let left = filter(&gateway, all).await["NodeNames"].take();
        assert_eq!(left, json!(decided), "remembered: {remembered:?}");
        assert_eq!(function.filtered()[before..], *asked, "remembered: {remembered:?}");
    }
}

#[tokio::test]
async fn a_check_that_another_revision_answers_is_its_answer_and_no_disagreement() {
    let function = Function::start(pure(reading::facts())).await;
    let gateway = paced(&function, BOTH, checking()).await;
    let mut client = Client::connect(gateway.address).await;
    let body = about(&sibling(1), &["a", "b"]);
    for _ in 0..10 {
        client.post("/filter", body.as_bytes()).await;
    }
    let _held = function.hold_handshakes();
    function.state().revision = "r2".into();
    function.state().strict = true;
    // Nothing is cached for c, and the check is about all three.
    assert_eq!(filter(&gateway, &["a", "b", "c"]).await["NodeNames"], json!([]));
    assert_eq!(function.filtered(), [&["a", "b"][..], &["a", "b", "c"]], "asked once");
    assert!(!has_disagreed(&gateway));
}

/// Makes calls about pods that are all different until the backend holds all nodes and gets ids.
async fn until_held(seen: &Seen, names: &[&str]) {
    let mut pod = sibling(1);
    for class in 0.. {
        pod["metadata"]["labels"]["app"] = json!(format!("class-{class}"));
        seen.refused(about(&pod, names)).await;
        if seen.said().ids.len() == names.len() && seen.said().rows.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn filter_answers_by_one_revision_where_nodes_are_named_by_ids() {
    let backend = Running::start(sdk::pure).await;
    let nodes = [("a", ""), ("b", "")];
    for (remembered, asked) in [(&[][..], &[2][..]), (&["a"], &[1, 2])] {
        let seen = Seen::watching(Relay::to(backend.address).await, &nodes).await;
        timeout(TEST_TIMEOUT, until_held(&seen, &["a", "b"])).await.unwrap();
        if !remembered.is_empty() {
            assert_eq!(seen.filter(remembered).await, json!({}));
        }
        let before = seen.relay.said("Filter").len();
        seen.relay.revise(Some(Revised { revision: "r2", refuses: "strict" }));
        assert_eq!(seen.filter(&["a", "b"]).await, json!({"a": "strict", "b": "strict"}));
        let said = seen.relay.said("Filter").split_off(before);
        assert!(said.iter().all(|said| said.rows.is_empty()), "{said:?}");
        assert_eq!(said.iter().map(|said| said.ids.len()).collect::<Vec<_>>(), asked);
    }
}

#[tokio::test]
async fn scores_of_two_revisions_make_no_answer_together() {
    let function = Function::start(pure(reading::facts())).await;
    let gateway = gateway(&function, "score: {timeout: 60s}").await;
    let prioritize =
        async |names: &[&str]| gateway.post("/prioritize", about(&sibling(1), names)).await.json();
    prioritize(&["a"]).await;
    let _held = function.hold_handshakes();
    function.state().revision = "r2".into();
    function.state().bonus = 7;
    let scores = json!([{"Host": "a", "Score": 7}, {"Host": "b", "Score": 7}]);
    assert_eq!(prioritize(&["a", "b"]).await, scores);
    assert_eq!(function.scored(), [&["a"][..], &["b"], &["a", "b"]]);
}

#[tokio::test]
async fn a_backend_that_is_not_remembered_still_has_one_round() {
    let function = Function::start(pure(reading::facts())).await;
    let gateway = gateway(&function, BOTH).await;
    let _held = function.hold_handshakes();
    function.state().revision = "r2".into();
    for _ in 0..3 {
        filter(&gateway, &["a", "b"]).await;
        gateway.post("/prioritize", about(&sibling(1), &["a", "b"])).await;
    }
    assert_eq!(function.filtered().len(), 3);
    // The scores of the answer that revealed the new revision are not used.
    assert_eq!(function.scored().len(), 1);
}

#[tokio::test]
async fn scores_that_came_with_filter_are_not_mixed_with_those_of_another_revision() {
    let function = Function::start(pure(reading::facts())).await;
    let gateway = gateway(&function, BOTH).await;
    let _held = function.hold_handshakes();
    function.state().revision = "r2".into();
    function.state().bonus = 7;
    // Reveals the new revision; the next one brings scores of r2.
    filter(&gateway, &["a", "b"]).await;
    filter(&gateway, &["a", "b"]).await;
    function.state().revision = "r1".into();
    function.state().bonus = 0;
    gateway.table.apply(labelled("b", &json!({"zone": "z"})).as_bytes()).unwrap();
    let scores = gateway.post("/prioritize", about(&sibling(1), &["a", "b"])).await.json();
    let [a, b] = [&scores[0]["Score"], &scores[1]["Score"]];
    assert_eq!(a, b, "one revision scores both");
    assert_eq!(function.scored(), [&["b"][..], &["a", "b"]]);
}

#[tokio::test]
async fn early_scores_of_a_backend_that_is_not_pure_after_all_are_of_one_revision_too() {
    let function = Function::start(pure(reading::facts())).await;
    let gateway = paced(&function, BOTH, checking()).await;
    let mut client = Client::connect(gateway.address).await;
    let body = about(&sibling(1), &["a", "b"]);
    for call in 0..=10 {
        // The last one is a check, and finds another answer of the same revision.
        function.state().strict = call == 10;
        client.post("/filter", body.as_bytes()).await;
    }
    assert!(has_disagreed(&gateway));
    function.state().strict = false;
    filter(&gateway, &["a", "b"]).await;
    gateway.table.apply(labelled("b", &json!({"zone": "z"})).as_bytes()).unwrap();
    let _held = function.hold_handshakes();
    function.state().revision = "r2".into();
    function.state().bonus = 7;
    let scores = gateway.post("/prioritize", body).await.json();
    assert_eq!(
        scores,
        json!([{"Host": "a", "Score": 7}, {"Host": "b", "Score": 7}]),
        "one revision scores both"
    );
    assert_eq!(function.scored(), [&["b"][..], &["a", "b"]]);
}

#[tokio::test]
async fn backends_with_other_args_share_nothing() {
    let function = Function::start(pure(reading::facts())).await;
    let url = function.backend.address;
    let one =
        |name: &str| format!("- {{name: {name}, url: 'http://{url}', args: {{by: {name}}}, {FILTER}}}\n");
    let rest =
        format!("nodes: {{source: Watch}}\ntimeouts: {{decision: 60s}}\nbackends:\n{}{}", one("x"), one("y"));
    let gateway = Gateway::start(&rest).await;
    gateway.table.apply(labelled("a", &json!({})).as_bytes()).unwrap();
    for _ in 0..2 {
        filter(&gateway, &["a"]).await;
    }
    assert_eq!(function.filtered(), [["a"], ["a"]], "each once");
}

#[tokio::test]
async fn a_reload_forgets_what_it_changes_and_nothing_else() {
    let function = Function::start(pure(reading::facts())).await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let text = |args: &str, prefix: &str| {
        let only =
            configured("only", &function.backend, &format!("args: {{by: {args}}}, filter: {{timeout: 60s}}"));
        format!(
            "{OWN}nodes: {{source: Request}}\n\
             timeouts: {{decision: 60s}}\nreasons: {{prefix: {prefix}}}\nbackends:\n{only}"
        )
    };
    let reloading = async {
        fs::write(&file, text("x", "None")).unwrap();
        let program = Program::start(&file).await;
        let mut client = Client::connect(program.extender).await;
        let body = about_objects(&sibling(1), &[labelled("a", &json!({}))]);
        for (reload, next, asked) in
            [(0, None, 1), (1, Some(text("x", "Backend")), 1), (2, Some(text("y", "Backend")), 2)]
        {
            if let Some(next) = next {
                fs::write(&file, next).unwrap();
                program.signal("HUP").await;
                let reloaded =
                    format!("extender_gateway_configuration_reloads_total{{outcome=\"ok\"}} {reload}");
                program.counted(&reloaded).await;
            }
            for _ in 0..2 {
                client.post("/filter", body.as_bytes()).await;
            }
            assert_eq!(function.filtered().len(), asked, "after reload {reload}");
        }
    };
    timeout(TEST_TIMEOUT, reloading).await.unwrap();
}

/// Changes a declaration.
type Change = fn(&mut GetInfoResponse);

/// The filter reads this part of pods, too.
fn reads_of_pod(info: &mut GetInfoResponse, part: PodPart) {
    info.verbs[0].reads.as_mut().unwrap().pod.as_mut().unwrap().parts.push(part.into());
}

#[tokio::test]
async fn a_contradiction_refuses_the_verb_with_a_sentence() {
    let whole_set = |info: &mut GetInfoResponse| info.verbs[0].scope = Scope::WholeSet as i32;
    let raw_nodes = |info: &mut GetInfoResponse| info.verbs[0].reads = Some(reading::json());
    let raw_pod = |info: &mut GetInfoResponse| reads_of_pod(info, PodPart::RawJson);
    let identity = |info: &mut GetInfoResponse| reads_of_pod(info, PodPart::Identity);
    let cases: [(Change, &str); 4] = [
        (whole_set, "depends on the whole set of nodes"),
        (raw_nodes, "reads the JSON of nodes"),
        (raw_pod, "reads the JSON of pods"),
        (identity, "reads the identity of pods"),
    ];
    for (contradict, why) in cases {
        let mut info = pure(reading::facts());
        contradict(&mut info);
        let function = Function::start(info).await;
        let gateway = gateway(&function, FILTER).await;
        let expected = format!(
            "extender-gateway: backend only failed filter: declares filter pure and also {why}; these are mutually exclusive"
        );
        assert_eq!(filter(&gateway, &["a"]).await["Error"], expected);
        assert!(function.filtered().is_empty());
    }
}
