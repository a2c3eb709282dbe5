//! What a hook holds on a node and what the pods on it use are of one state, whenever they change.

use std::{
    iter,
    sync::{Arc, Mutex, OnceLock},
};

use extender_gateway_cluster::{pods::PodTable, table::NodeTable};
use extender_policy_api::v1beta1::{
    self as api, ChangeResponse, GetInfoResponse, Hold, HoldUser, NodeChange, NodePart, Resources, Verb,
};
use prost::Message;
use serde_json::json;

use crate::{
    hooks::{agrees, hooks, pure_hooks},
    support::{
        Gateway,
        admin::Seen,
        backend::{Act, Scripted, configured, info, result, rows},
        function::{about, labelled, sibling},
        reading,
    },
};

/// What changes while a hook answers.
#[derive(Clone, Copy, Debug)]
enum Meanwhile {
    Nothing,
    /// The owner of the reserved room is seen on its node, with 3 CPUs.
    Comes,
    Ends,
}

#[derive(Default)]
struct Cluster {
    tables: OnceLock<(Arc<PodTable>, Arc<NodeTable>)>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Cluster {
    fn change(&self) {
        let (pods, table) = self.tables.get().unwrap();
        match self.meanwhile.lock().unwrap().take() {
            Some(Meanwhile::Comes) => pods.apply(owner().as_bytes()).unwrap(),
            Some(Meanwhile::Ends) => pods.remove("u-owner"),
            _ => {}
        }
        pods.pass_on(iter::once(&**table));
    }
}

fn owner() -> String {
    json!({
        "metadata": {"name": "owner", "namespace": "shop", "uid": "u-owner"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
    })
    .to_string()
}

/// Holds 4 CPUs for the owner.
fn held(revision: &str) -> Act {
    let users = vec![HoldUser { uid: "u-owner".to_owned(), at_most: None }];
    let resources = Some(Resources { milli_cpu: 4_000, pods: 1, ..Resources::default() });
    let change =
        NodeChange { positions: vec![0], holds: vec![Hold { resources, users }], ..NodeChange::default() };
    let result = Some(api::Result { revision: revision.to_owned(), ..result(1) });
    let answer = ChangeResponse { result, pod: None, nodes: vec![change] };
    Act::Message(answer.encode_to_vec())
}

fn with_usage() -> GetInfoResponse {
    info(reading::with_part(reading::facts(), NodePart::Usage))
}

/// The CPUs of the node that the policy is told are used.
async fn used(gateway: &Gateway, policy: &Scripted) -> (i64, i64) {
    let answer = gateway.post("/filter", about(&sibling(1), &["a"])).await.json();
    assert_eq!(answer["Error"], "", "{answer}");
    let row = rows(policy.messages("Filter").last().unwrap()).remove(0);
    let usage = row.usage.unwrap();
    (usage.requested.unwrap().milli_cpu, usage.nonzero.unwrap().milli_cpu)
}

async fn never_more_or_less_than_is_held(hook: GetInfoResponse) {
    let cluster = Arc::<Cluster>::default();
    let (pure, revision) =
        (hook.verbs.last().unwrap().effects() == api::Effects::Pure, hook.revision.clone());
    let during = Arc::clone(&cluster);
    let hook = Scripted::start(hook, move |verb, message| match verb {
        "BeforeFilterNodes" => {
            during.change();
            held(&revision)
        }
        _ => agrees(verb, &message),
    });
    let hook = hook.await;
    let changing = Arc::clone(&cluster);
    let policy = Scripted::start(with_usage(), move |verb, message| {
        if pure {
            changing.change();
        }
        agrees(verb, &message)
    });
    let policy = policy.await;
    let backends =
        configured("hook", &hook, "beforeFilterNodes: {}") + &configured("policy", &policy, "filter: {}");
    let seen =
        Seen::start(&format!("nodes: {{source: Watch}}\npods: {{source: Watch}}\nbackends:\n{backends}"))
            .await;
    let gateway = &seen.gateway;
    gateway.table.apply(labelled("a", &json!({})).as_bytes()).unwrap();
    let tables = (Arc::clone(gateway.pods.as_ref().unwrap()), Arc::clone(&gateway.table));
    assert!(cluster.tables.set(tables).is_ok());
    cluster.change();
    let meanwhile = [Meanwhile::Nothing, Meanwhile::Comes, Meanwhile::Nothing, Meanwhile::Ends];
    for meanwhile in meanwhile.into_iter().cycle().take(12) {
        *cluster.meanwhile.lock().unwrap() = Some(meanwhile);
        assert_eq!(used(gateway, &policy).await, (4_000, 4_000), "{meanwhile:?}");
    }
    let call = seen.calls(12).await;
    let words: Vec<_> =
        call.iter().flat_map(|call| &call.nodes[0].changes).map(|change| &change.change).collect();
    let told = |words_of: &str| words.iter().filter(|words| words.as_str() == words_of).count();
    assert_eq!(told("usage +4 cpu, usage +1 pods") + told("usage +1 cpu, usage +1 pods"), 12, "{words:?}");
    assert!(told("usage +1 cpu, usage +1 pods") >= 4, "{words:?}");
    let asked = hook.messages("BeforeFilterNodes").len();
    assert_eq!(asked, if pure { 1 } else { 12 });
}

#[tokio::test]
async fn an_owner_that_comes_or_ends_while_a_hook_answers_leaves_no_gap() {
    never_more_or_less_than_is_held(hooks(&[Verb::BeforeFilterNodes])).await;
}

#[tokio::test]
async fn a_change_that_is_remembered_is_held_less_what_is_used_now() {
    never_more_or_less_than_is_held(pure_hooks(&[Verb::BeforeFilterNodes])).await;
}
