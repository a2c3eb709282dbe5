//! Usage after arbitrary events, compared with new sums.

use std::collections::BTreeMap;

use extender_gateway_object::{counted::TopologyCountView, pod};
use extender_policy_api::v1beta1::{NonZero, PodCount, PodCounts, Resources};
use proptest::prelude::*;
use prost::Message;
use serde_json::{Value, json};

use super::*;

const NODES: [&str; 3] = ["n1", "n2", "n3"];

fn on(node: &str, uid: &str, requests: &Value) -> Value {
    json!({
        "metadata": {"name": uid, "namespace": "shop", "uid": uid},
        "spec": {"nodeName": node, "containers": [{"name": "main", "resources": {"requests": requests}}]},
        "status": {"phase": "Running"},
    })
}

fn apply(usage: &mut Usage, pod: &Value) {
    usage.apply(&pod::parse(pod.to_string().as_bytes()).unwrap());
}

fn of(usage: &Usage, node: &str) -> NodeUsage {
    usage.pods_of(node, |_| Vec::new()).usage
}

/// The changed nodes.
fn changed(usage: &mut Usage) -> BTreeMap<String, NodeUsage> {
    let nodes = usage.take_changed(|_| Vec::new()).nodes;
    nodes.into_iter().map(|(node, pods)| (node.to_string(), pods.usage)).collect()
}

/// Pods and milli-CPU of the changed nodes.
fn changes(usage: &mut Usage) -> Vec<(String, i64, i64)> {
    let amounts = changed(usage).into_iter().map(|(node, usage)| {
        let requested = usage.requested.unwrap_or_default();
        (node, requested.pods, requested.milli_cpu)
    });
    amounts.collect()
}

fn change(node: &str, pods: i64, milli_cpu: i64) -> (String, i64, i64) {
    (node.to_owned(), pods, milli_cpu)
}

#[test]
fn requests_of_pods_on_a_node_are_summed() {
    let mut usage = Usage::default();
    apply(&mut usage, &on("n1", "a", &json!({"cpu": "1500u", "memory": "1Mi", "example.com/gpu": "2"})));
    apply(
        &mut usage,
        &on("n1", "b", &json!({"cpu": "1500u", "ephemeral-storage": "1Gi", "example.com/nic": "0"})),
    );
    apply(&mut usage, &on("n1", "c", &json!({"example.com/gpu": "1"})));
    let others = [("example.com/gpu".to_owned(), 3)];
    let requested = Resources {
        // As in kube-scheduler, each pod is rounded up before the sum.
        milli_cpu: 4,
        memory: 1 << 20,
        ephemeral_storage: 1 << 30,
        pods: 3,
        others: others.into(),
    };
    let nonzero = NonZero { milli_cpu: 104, memory: 401 << 20 };
    assert_eq!(of(&usage, "n1"), NodeUsage { requested: Some(requested), nonzero: Some(nonzero) });
    assert_eq!(of(&usage, "n2"), NodeUsage::default());
}

#[test]
fn only_pods_that_use_resources_count() {
    let cpu = json!({"cpu": "1"});
    let mut ended = on("n1", "a", &cpu);
    ended["status"]["phase"] = "Succeeded".into();
    for nothing in [ended.clone(), on("", "a", &cpu), on("n1", "", &cpu)] {
        let mut usage = Usage::default();
        apply(&mut usage, &nothing);
        assert_eq!(
            (of(&usage, "n1"), of(&usage, "")),
            (NodeUsage::default(), NodeUsage::default()),
            "{nothing}"
        );
    }
    let mut usage = Usage::default();
    apply(&mut usage, &on("n1", "a", &cpu));
    apply(&mut usage, &ended);
    assert_eq!(of(&usage, "n1"), NodeUsage::default(), "it has ended since");
}

#[test]
fn a_pod_is_taken_off_a_hold_only_where_rows_have_it() {
    let (one, two) = (json!({"cpu": "1"}), json!({"cpu": "2"}));
    let mut usage = Usage::default();
    let cpus =
        |usage: &Usage, number| usage.requests_on("n1", "a", number).map(|requests| requests.milli_cpu);
    apply(&mut usage, &on("n1", "a", &one));
    assert_eq!(cpus(&usage, 0), None, "no row has it yet");
    changed(&mut usage);
    assert_eq!((cpus(&usage, 0), cpus(&usage, 1)), (None, Some(1_000)));
    let mut ready = on("n1", "a", &one);
    ready["metadata"]["labels"] = json!({"ready": "yes"});
    apply(&mut usage, &ready);
    assert_eq!(cpus(&usage, 1), Some(1_000), "it uses the same");
    apply(&mut usage, &on("n1", "a", &two));
    assert_eq!(cpus(&usage, 1), None, "rows have less of it");
    changed(&mut usage);
    assert_eq!((cpus(&usage, 2), usage.requests_on("n2", "a", 2)), (Some(2_000), None));
    let mut list = usage.relist();
    apply(&mut list, &on("n1", "a", &two));
    usage.replace(list, |_| None);
    assert_eq!(cpus(&usage, 2), Some(2_000), "a list that says the same changes nothing");
    usage.remove("a");
    assert_eq!(cpus(&usage, 2), None, "it has ended");
}

#[test]
fn only_changed_nodes_are_returned() {
    let (one, two) = (json!({"cpu": "1"}), json!({"cpu": "2"}));
    let mut usage = Usage::default();
    assert!(!usage.is_touched());
    apply(&mut usage, &on("n1", "a", &one));
    apply(&mut usage, &on("n2", "b", &two));
    assert!(usage.is_touched());
    assert_eq!(changes(&mut usage), [change("n1", 1, 1000), change("n2", 1, 2000)]);

    let mut ready = on("n1", "a", &one);
    ready["metadata"]["labels"] = json!({"ready": "yes"});
    apply(&mut usage, &ready);
    usage.remove("unknown");
    assert!(!usage.is_touched());

    usage.remove("a");
    apply(&mut usage, &on("n1", "c", &one));
    assert_eq!(changes(&mut usage), [], "an equal pod is in its place");

    apply(&mut usage, &on("n1", "b", &two));
    assert_eq!(changes(&mut usage), [change("n1", 2, 3000), change("n2", 0, 0)], "a UID on another node");
    let mut resized = on("n1", "b", &two);
    let running = json!({"name": "main", "resources": {"requests": {"cpu": "5"}}});
    resized["status"]["containerStatuses"] = json!([running]);
    apply(&mut usage, &resized);
    assert_eq!(changes(&mut usage), [change("n1", 2, 6000)], "it still runs with more");
}

#[test]
fn a_list_replaces_all_pods_and_only_changed_nodes_are_returned() {
    let one = json!({"cpu": "1"});
    let list = |pods: &[(&str, &str)]| {
        let mut list = Usage::default();
        for (node, uid) in pods {
            apply(&mut list, &on(node, uid, &one));
        }
        list
    };
    let mut usage = Usage::default();
    usage.replace(list(&[("n1", "a"), ("n2", "b")]), |_| None);
    assert_eq!(changes(&mut usage), [change("n1", 1, 1000), change("n2", 1, 1000)]);
    usage.replace(list(&[("n1", "a"), ("n2", "b")]), |_| None);
    assert!(!usage.is_touched());
    usage.replace(list(&[("n1", "c"), ("n3", "b")]), |_| None);
    assert_eq!(changes(&mut usage), [change("n2", 0, 0), change("n3", 1, 1000)]);
    usage.remove("a");
    assert!(!usage.is_touched(), "the list has removed it");
}

#[test]
fn a_pod_that_is_being_bound_waits_again_if_that_fails() {
    let mut usage = Usage::default();
    let pod = |nominated: &str| {
        let mut pod = on("", "a", &json!({"cpu": "1"}));
        pod["status"] = json!({"nominatedNodeName": nominated});
        pod
    };
    let none = |_: &str| Vec::new();
    let cpus = |usage: NodeUsage| usage.requested.map_or(0, |requested| requested.milli_cpu);
    let told = |usage: &Usage| (cpus(of(usage, "n1")), cpus(usage.nominated.of("n2", none)));
    let parsed = pod("").to_string();
    let assume = |usage: &mut Usage| usage.assume(&pod::parse(parsed.as_bytes()).unwrap(), "n1").unwrap();

    apply(&mut usage, &pod(""));
    let id = assume(&mut usage);
    // Nothing else of it has changed.
    apply(&mut usage, &pod("n2"));
    assert_eq!(told(&usage), (1000, 0));
    usage.forget("a", id);
    assert_eq!(told(&usage), (0, 1000));
    let id = assume(&mut usage);
    let mut list = usage.relist();
    apply(&mut list, &pod("n2"));
    usage.replace(list, |_| Some(KnownPod::parsed(&pod("n2").to_string())));
    assert_eq!(told(&usage), (1000, 0));
    usage.forget("a", id);
    assert_eq!(told(&usage), (0, 1000), "also if the pod was listed meanwhile");
    let mut list = usage.relist();
    usage.keep(&mut list, &["a".to_owned()]);
    usage.replace(list, |_| None);
    assert_eq!(told(&usage), (0, 1000), "it cannot be read, and stays");
    let list = usage.relist();
    usage.replace(list, |_| None);
    assert_eq!(told(&usage), (0, 0));
    assert!(usage.nominated.take_changed(none).iter().any(|(node, _)| &**node == "n2"), "rows are told");
}

#[test]
fn a_pod_that_was_assumed_while_a_list_arrived_stays() {
    let [before, since, gone] =
        ["before", "since", "gone"].map(|uid| of_owner("", uid, "o1", None).to_string());
    let [before, since, gone] = [&before, &since, &gone].map(|json| pod::parse(json.as_bytes()).unwrap());
    let mut usage = counting();
    let id = usage.assume(&before, "n1").unwrap();
    usage.assume(&gone, "n1").unwrap();
    let list = usage.relist();
    usage.assume(&since, "n2").unwrap();
    let json =
        |uid: &str| (uid == "before").then(|| KnownPod::parsed(&of_owner("", uid, "o1", None).to_string()));
    usage.replace(list, json);
    let pods: Vec<_> = by_owner(&usage, "o1").into_iter().map(|(node, pods, ..)| (node, pods)).collect();
    assert_eq!(pods, [("n1".to_owned(), 1), ("n2".to_owned(), 1)]);
    // A later attempt to bind the pod is not ended by the end of an earlier one.
    let later = usage.assume(&before, "n2").unwrap();
    usage.forget("before", id);
    assert_eq!(by_owner(&usage, "o1").len(), 1);
    usage.forget("before", later);
    assert_eq!(by_owner(&usage, "o1")[0].1, 1);
    // The source has it on a node.
    apply(&mut usage, &of_owner("n3", "since", "o1", None));
    assert_eq!(usage.assume(&since, "n1"), None);
}

#[tokio::test(start_paused = true)]
async fn it_is_known_since_when_a_pod_counted_that_was_not_bound() {
    let pods = ["a", "b", "c"].map(|uid| of_owner("", uid, "o1", None));
    let [a, b, c] = pods.each_ref().map(Value::to_string);
    let [a, b, c] = [&a, &b, &c].map(|json| pod::parse(json.as_bytes()).unwrap());
    let mut usage = counting();
    let begin = Instant::now();
    let after = |seconds| begin + std::time::Duration::from_secs(seconds);
    let first = usage.assume(&a, "n1").unwrap();
    tokio::time::advance(after(1) - begin).await;
    let ids = [usage.assume(&b, "n1").unwrap(), usage.assume(&c, "n2").unwrap()];
    assert_eq!(usage.take_freed(), None);
    // It is bound where it counts.
    apply(&mut usage, &of_owner("n2", "c", "o1", None));
    usage.forget("c", ids[1]);
    assert_eq!(usage.take_freed(), None);
    // A later attempt on the same node: the end of the earlier one frees nothing.
    let again = usage.assume(&a, "n1").unwrap();
    usage.forget("a", first);
    assert_eq!(usage.take_freed(), None);
    usage.forget("a", again);
    assert_eq!((usage.take_freed(), usage.take_freed()), (Some(after(1)), None));
    // On another node, or deleted.
    usage.assume(&a, "n1").unwrap();
    tokio::time::advance(after(1) - begin).await;
    apply(&mut usage, &of_owner("n3", "b", "o1", None));
    assert_eq!(usage.take_freed(), Some(after(1)));
    usage.remove("a");
    assert_eq!(usage.take_freed(), Some(after(1)));
    // It is in no list any more.
    usage.assume(&pod::parse(of_owner("", "d", "o1", None).to_string().as_bytes()).unwrap(), "n1").unwrap();
    usage.replace(usage.relist(), |_| None);
    assert_eq!(usage.take_freed(), Some(after(2)));
}

#[test]
fn a_pod_is_not_like_itself() {
    let mut usage = counting();
    let own = of_owner("", "new", "o1", None).to_string();
    usage.assume(&pod::parse(own.as_bytes()).unwrap(), "n1").unwrap();
    apply(&mut usage, &of_owner("n2", "other", "o1", None));
    // `by_owner` asks about a pod with this UID.
    let nodes: Vec<_> = by_owner(&usage, "o1").into_iter().map(|(node, ..)| node).collect();
    assert_eq!(nodes, ["n2"]);
}

#[test]
fn a_saturated_sum_recovers() {
    let most = json!({"memory": "9223372036854775807", "example.com/gpu": "9223372036854775807"});
    let mut usage = Usage::default();
    for uid in ["a", "b", "c"] {
        apply(&mut usage, &on("n1", uid, &most));
    }
    assert_eq!(of(&usage, "n1").requested.unwrap().memory, i64::MAX);
    usage.remove("a");
    usage.remove("b");
    apply(&mut usage, &on("n1", "c", &json!({"memory": "5"})));
    let requested = of(&usage, "n1").requested.unwrap();
    assert_eq!((requested.memory, requested.others.len()), (5, 0));
}

/// Pods that users may create on a node: each requests thousands of resources that no node has.
fn crowd(pods: usize) -> Usage {
    let mut usage = Usage::default();
    for pod in 0..pods {
        let names =
            (0..2_000).map(|name| (format!("{}.example.com/{name:05}-{pod}", "a".repeat(60)), "1".into()));
        let requests: serde_json::Map<_, _> = names.collect();
        apply(&mut usage, &on("n1", &format!("crowd-{pod}"), &requests.into()));
    }
    usage
}

#[test]
fn a_row_is_bounded() {
    let mut usage = crowd(20);
    apply(&mut usage, &on("n1", "regular", &json!({"nvidia.com/gpu": "3", "example.com/nic": "1"})));
    let reported = |node: &str| {
        assert_eq!(node, "n1");
        vec!["nvidia.com/gpu".to_owned(), "example.com/unused".to_owned()]
    };
    let changed = usage.take_changed(reported);
    let [(node, shown)] = &changed.nodes[..] else { panic!("one node") };
    let others = &shown.usage.requested.as_ref().unwrap().others;
    assert_eq!((&**node, others["nvidia.com/gpu"], others.len()), ("n1", 3, MOST_OTHERS + 1));
    assert!(shown.usage.encoded_len() < 32 << 10, "{} bytes", shown.usage.encoded_len());
    assert_eq!(shown.usage.requested.as_ref().unwrap().pods, 21);
    for pod in 0..20 {
        usage.remove(&format!("crowd-{pod}"));
    }
    let after = &usage.take_changed(|_| Vec::new()).nodes[0].1;
    assert_eq!(after.usage.requested.as_ref().unwrap().others.len(), 2, "nothing is omitted afterwards");
}

#[test]
fn the_cost_of_an_event_depends_only_on_its_pod() {
    let mut usage = crowd(20);
    drop(usage.take_changed(|_| Vec::new()));
    let small = pod::parse(br#"{"metadata":{"name":"s","uid":"s"},"spec":{"nodeName":"n1"}}"#).unwrap();
    let allocated = allocation_counter::measure(|| {
        for _ in 0..100 {
            usage.apply(&small);
            usage.remove("s");
        }
    });
    assert!(allocated.count_total < 2_000, "{} allocations", allocated.count_total);
}

#[test]
fn a_pod_takes_little_memory() {
    assert!(size_of::<(Box<str>, CountedPod)>() <= 104, "there may be 150,000");
}

/// An event of a pod, or a reader.
#[derive(Debug, Clone)]
enum Event {
    Apply(Value),
    Remove(String),
    Relist(Vec<Value>, bool),
    /// The gateway binds the pod to the node.
    Assume(&'static str, &'static str),
    /// It could not bind the pod.
    Forget(&'static str),
    /// Reads the changed nodes.
    Read,
}

fn any_pod() -> impl Strategy<Value = Value> {
    let node = proptest::sample::select(vec!["", "", "n1", "n2", "n3"]);
    let uid = any_uid();
    let (owner, app) = (proptest::sample::select(vec!["o1", "o2"]), proptest::option::of("[xy]"));
    let deleted = proptest::bool::weighted(0.2);
    let nominated = proptest::sample::select(vec!["", "", "n1", "n2"]);
    let phase = proptest::sample::select(vec!["Pending", "Running", "Running", "Succeeded", "Failed"]);
    let amount = proptest::sample::select(vec!["0", "1", "1500u", "7", "9223372036854775807"]);
    let names = ["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"];
    let name = proptest::sample::select(names.to_vec());
    let requests = proptest::collection::btree_map(name, amount, 0..4);
    let others = (owner, app, deleted, nominated);
    (node, uid, phase, requests, others).prop_map(
        |(node, uid, phase, requests, (owner, app, deleted, nominated))| {
            let mut pod = of_owner(node, uid, owner, app.as_deref());
            pod["spec"]["containers"][0]["resources"]["requests"] = json!(requests);
            pod["status"] = json!({"phase": phase, "nominatedNodeName": nominated});
            if deleted {
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            }
            pod
        },
    )
}

fn any_uid() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["a", "b", "c", "d", "e"])
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => any_pod().prop_map(Event::Apply),
        3 => any_uid().prop_map(|uid| Event::Remove(uid.into())),
        3 => (any_uid(), proptest::sample::select(NODES.to_vec())).prop_map(|(uid, node)| Event::Assume(uid, node)),
        2 => any_uid().prop_map(Event::Forget),
        2 => (proptest::collection::vec(any_pod(), 0..6), any::<bool>())
            .prop_map(|(pods, same)| Event::Relist(pods, same)),
        3 => Just(Event::Read),
    ]
}

fn counting() -> Usage {
    let mut usage = Usage::default();
    let by: Arc<[CountedBy]> = [CountedBy::Owner, CountedBy::Label("app".into())].into();
    usage.count_by(Arc::clone(&by), |_| None);
    usage.put_in_rows(by);
    usage
}

/// What the events have led to: the pods as the source has them, and the nodes where attempts may bind them.
#[derive(Default)]
struct Model {
    pods: BTreeMap<String, Value>,
    assumed: BTreeMap<String, Vec<(&'static str, AssumptionId)>>,
}

impl Model {
    /// A pod that is bound or has ended is no longer assumed.
    fn settle(&mut self) {
        let pods = &self.pods;
        let is_unbound = |pod: &Value| {
            pod["spec"]["nodeName"] == ""
                && !["Succeeded", "Failed"].iter().any(|it| pod["status"]["phase"] == *it)
        };
        self.assumed.retain(|uid, all| !all.is_empty() && pods.get(uid).is_some_and(is_unbound));
    }

    /// The node of an assumed pod, and the pods with that one as the source has it.
    fn without(&self, uid: &str) -> Option<(&'static str, Usage)> {
        let (node, _) = self.assumed.get(uid)?.last()?;
        let others = self.placed().into_iter().filter(|pod| pod["metadata"]["uid"] != uid);
        let pods: Vec<_> = others.chain(self.pods.get(uid).cloned()).collect();
        Some((*node, summed(&pods)))
    }

    fn placed(&self) -> Vec<Value> {
        let place = |(uid, pod): (&String, &Value)| {
            let mut pod = pod.clone();
            if let Some((node, _)) = self.assumed.get(uid).and_then(|all| all.last()) {
                pod["spec"]["nodeName"] = (*node).into();
            }
            pod
        };
        self.pods.iter().map(place).collect()
    }
}

/// The pods of an owner by node, as topology counts.
fn by_owner(usage: &Usage, owner: &str) -> Vec<(String, u32, u32, Option<Resources>)> {
    let pod = of_owner("", "new", owner, None).to_string();
    let pod = pod::parse(pod.as_bytes()).unwrap();
    let view = TopologyCountView { by: CountedBy::Owner, topology_key: "host".into(), requests: true };
    // Two of the nodes are one domain.
    let domain =
        |node: &str| Some(if node == "n3" { "n2" } else { NODES.into_iter().find(|it| *it == node)? });
    let counts = usage.topology_counts(&pod, &view, domain).unwrap();
    assert_eq!(counts.omitted_pods, 0);
    let counts = counts.domains.into_iter();
    counts.map(|count| (count.value, count.pods, count.terminating, count.requested)).collect()
}

/// The same from the pods themselves.
fn by_owner_of(pods: &[Value], owner: &str) -> Vec<(String, u32, u32, Option<Resources>)> {
    let mut domains: BTreeMap<&str, (u32, u32, Usage)> = BTreeMap::new();
    for pod in pods {
        let ended = ["Succeeded", "Failed"].iter().any(|phase| pod["status"]["phase"] == *phase);
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        if ended || node.is_empty() || pod["metadata"]["ownerReferences"][0]["uid"] != owner {
            continue;
        }
        let domain = domains.entry(if node == "n1" { "n1" } else { "n2" }).or_default();
        domain.0 += 1;
        domain.1 += u32::from(!pod["metadata"]["deletionTimestamp"].is_null());
        let mut one = pod.clone();
        one["spec"]["nodeName"] = "domain".into();
        apply(&mut domain.2, &one);
    }
    let requested = |usage: &Usage| {
        let requested = of(usage, "domain").requested.unwrap();
        // The pod itself requests no other resources.
        Some(Resources { pods: 0, others: BTreeMap::new(), ..requested })
    };
    let domains = domains.into_iter();
    domains
        .map(|(node, (pods, terminating, sums))| (node.to_owned(), pods, terminating, requested(&sums)))
        .collect()
}

/// New sums of these pods.
fn summed<'v>(pods: impl IntoIterator<Item = &'v Value>) -> Usage {
    let mut usage = counting();
    for pod in pods {
        apply(&mut usage, pod);
    }
    usage
}

type CountedLike<'u> = (&'u str, &'u PodRequests, Option<&'u Attributes>);

fn counted(usage: &Usage) -> BTreeMap<&str, CountedLike<'_>> {
    // All but when it was counted first.
    usage
        .pods
        .iter()
        .map(|(uid, pod)| (&**uid, (&*pod.node, &pod.requests, pod.attributes.as_deref())))
        .collect()
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap().to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn sums_are_exact(events in proptest::collection::vec(any_event(), 0..25)) {
        let mut usage = counting();
        let mut model = Model::default();
        let (mut reader, mut waiting) = (BTreeMap::<String, NodeUsage>::new(), HashMap::default());
        // By the numbers of changes.
        let mut rows: Vec<BTreeMap<String, (String, Resources)>> = Vec::new();
        for event in events {
            let is_changed = !matches!(event, Event::Read);
            match event {
                Event::Apply(pod) => {
                    apply(&mut usage, &pod);
                    model.pods.insert(uid(&pod), pod);
                }
                Event::Remove(uid) => {
                    usage.remove(&uid);
                    model.pods.remove(&uid);
                }
                Event::Relist(list, same) => {
                    model.pods = list.iter().map(|pod| (uid(pod), pod.clone())).collect();
                    let json = |uid: &str| Some(KnownPod::parsed(&model.pods.get(uid)?.to_string()));
                    // What is counted may change while a list arrives.
                    let mut list = usage.relist();
                    if !same {
                        list.counts = Counts::default();
                    }
                    model.pods.values().for_each(|pod| apply(&mut list, pod));
                    usage.replace(list, json);
                }
                Event::Assume(uid, node) => {
                    if let Some(pod) = model.pods.get(uid) {
                        let mut unbound = pod.clone();
                        unbound["spec"]["nodeName"] = "".into();
                        // The pod table does not keep it.
                        unbound["status"]["nominatedNodeName"] = Value::Null;
                        let assumed = usage.assume(&pod::parse(unbound.to_string().as_bytes()).unwrap(), node);
                        // A pod on a node is not assumed, unless it has ended there.
                        if let Some(id) = assumed.filter(|_| pod["spec"]["nodeName"] == "") {
                            model.assumed.entry(uid.to_owned()).or_default().push((node, id));
                        }
                    }
                }
                Event::Forget(uid) => {
                    if let Some(all) = model.assumed.get_mut(uid).filter(|all| !all.is_empty()) {
                        // The latest or the first attempt ends.
                        let (_, id) = all.remove(if all.len() % 2 == 0 { all.len() - 1 } else { 0 });
                        usage.forget(uid, id);
                    }
                }
                Event::Read => {
                    let change = usage.take_changed(|_| Vec::new());
                    reader.extend(change.nodes.into_iter().map(|(node, pods)| (node.to_string(), pods.usage)));
                    waiting.extend(change.nominated);
                    let pods = usage.pods.iter();
                    let row = pods.map(|(uid, pod)| {
                        (uid.to_string(), (pod.node.to_string(), pod.requests.resources()))
                    });
                    rows.push(row.collect());
                }
            }
            model.settle();
            let pods = model.placed();
            let expected = summed(&pods);
            prop_assert_eq!(&usage.nodes, &expected.nodes);
            for node in NODES {
                let none = |_: &str| Vec::new();
                prop_assert_eq!(usage.nominated.of(node, none), expected.nominated.of(node, none));
            }
            prop_assert_eq!(counted(&usage), counted(&expected));
            // What is taken off a hold is in the rows of that change, and all of it in those of the latest one.
            for (number, rows) in (1..).zip(&rows) {
                for (uid, pod) in &usage.pods {
                    let taken_off = NODES.iter().find_map(|node| Some((*node, usage.requests_on(node, uid, number)?)));
                    let in_rows = rows.get(&**uid).map(|(node, requests)| (node.as_str(), requests.clone()));
                    prop_assert!(taken_off.is_none() || taken_off == in_rows, "{} in {}: {:?}", uid, number, pod);
                    prop_assert!(number < usage.taken || is_changed || taken_off == in_rows);
                }
            }
            for node in NODES {
                let none = |_: &str| Vec::new();
                prop_assert_eq!(usage.counts.of(node, none), expected.counts.of(node, none));
            }
            for uid in model.pods.keys() {
                let none = |_: &str| Vec::new();
                let without =
                    usage.without(uid, none).map(|mut change| (change.nodes.remove(0), change.nominated.remove(0)));
                let expected = model.without(uid).map(|(node, others)| {
                    let name = Arc::<str>::from(node);
                    let nominated = others.nominated.of(node, none);
                    ((Arc::clone(&name), others.pods_of(node, none)), (name, nominated))
                });
                prop_assert_eq!(without, expected);
            }
            let counted = |usage: &Usage| {
                let pods = usage.pods.iter();
                let pods = pods.map(|(uid, CountedPod { since: _, node, requests, attributes })| {
                    (uid.clone(), format!("{node} {requests:?} {attributes:?}"))
                });
                pods.collect::<HashMap<_, _>>()
            };
            prop_assert_eq!(counted(&usage), counted(&expected));
            for owner in ["o1", "o2", "o3"] {
                prop_assert_eq!(by_owner(&usage, owner), by_owner_of(&pods, owner));
            }
        }
        waiting.extend(usage.nominated.take_changed(|_| Vec::new()));
        reader.extend(changed(&mut usage));
        for node in NODES {
            prop_assert_eq!(reader.remove(node).unwrap_or_default(), of(&usage, node));
            let nominated = usage.nominated.of(node, |_| Vec::new());
            prop_assert_eq!(waiting.remove(node).unwrap_or_default(), nominated);
        }
    }
}

/// A pod of an owner, with a label if there is a value.
fn of_owner(node: &str, uid: &str, owner: &str, app: Option<&str>) -> Value {
    let mut pod = on(node, uid, &json!({"cpu": "1"}));
    pod["metadata"]["ownerReferences"] = json!([{"uid": owner, "controller": true}]);
    pod["metadata"]["labels"] = app.map_or(json!({}), |app| json!({"app": app}));
    pod
}

/// Counts by one attribute: namespace, value, pods, and those of them that are being deleted.
type CountsBy = Vec<(String, String, u32, u32)>;

/// The changed nodes with their counts by each attribute.
fn counts(usage: &mut Usage) -> BTreeMap<String, Vec<CountsBy>> {
    let count = |count: PodCount| (count.namespace, count.value, count.pods, count.terminating);
    let by = |counts: PodCounts| counts.counts.into_iter().map(count).collect();
    let nodes = usage.take_changed(|_| Vec::new()).nodes.into_iter();
    nodes.map(|(node, pods)| (node.to_string(), pods.counts.into_iter().map(by).collect())).collect()
}

#[test]
fn pods_are_counted_by_what_is_declared() {
    let mut usage = Usage::default();
    let pods = [
        of_owner("n1", "a", "o1", Some("web")),
        of_owner("n1", "b", "o1", None),
        of_owner("n1", "c", "o2", Some("")),
    ];
    for pod in &pods {
        apply(&mut usage, pod);
    }
    assert_eq!(counts(&mut usage)["n1"], [[]; 0], "nothing is declared");
    let by: Arc<[CountedBy]> = [CountedBy::Owner, CountedBy::Label("app".into())].into();
    usage.put_in_rows(Arc::clone(&by));
    usage.count_by(Arc::clone(&by), |uid| {
        let pod = pods.iter().find(|pod| pod["metadata"]["uid"] == uid)?;
        Attributes::of(&pod::parse(pod.to_string().as_bytes()).unwrap(), &by)
    });
    let entry = |namespace: &str, value: &str, pods, terminating| {
        (namespace.to_owned(), value.to_owned(), pods, terminating)
    };
    let of_n1 = vec![
        vec![entry("", "o1", 2, 0), entry("", "o2", 1, 0)],
        vec![entry("shop", "", 1, 0), entry("shop", "web", 1, 0)],
    ];
    assert_eq!(counts(&mut usage), BTreeMap::from([("n1".to_owned(), of_n1)]));
    let mut deleted = pods[1].clone();
    deleted["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    apply(&mut usage, &deleted);
    assert_eq!(counts(&mut usage)["n1"][0], [entry("", "o1", 2, 1), entry("", "o2", 1, 0)]);
    for uid in ["a", "b", "c"] {
        usage.remove(uid);
    }
    assert_eq!(counts(&mut usage)["n1"], [[]; 0]);
}
