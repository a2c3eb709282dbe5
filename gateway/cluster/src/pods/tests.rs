use std::time::Duration;

use super::*;
use crate::usage::NodePods;

impl PodTable {
    /// The pod with this name.
    pub fn by_name(&self, namespace: &str, name: &str) -> Option<Arc<KnownPod>> {
        self.pods.read().by_name(namespace, name)
    }
}

fn pod(name: &str, uid: &str, node: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"{name}","namespace":"shop","uid":"{uid}"}},"spec":{{"nodeName":"{node}","priority":7}},"status":{{}}}}"#
    )
}

fn uid_of(table: &PodTable, name: &str) -> Option<String> {
    table.by_name("shop", name).map(|pod| pod.uid.clone())
}

#[test]
fn a_pod_is_found_by_uid_and_by_name() {
    let table = PodTable::new();
    table.apply(pod("web", "u-1", "n1").as_bytes()).unwrap();
    let known = table.get("u-1").unwrap();
    assert_eq!((known.node.as_str(), known.priority, known.namespace.as_str()), ("n1", 7, "shop"));
    assert!(!known.json.windows(6).any(|bytes| bytes == b"status"));
    assert_eq!(table.by_name("shop", "web"), Some(known));
    assert_eq!(
        (table.get("u-2"), table.by_name("web", "shop"), table.by_name("shop", "db")),
        (None, None, None)
    );
}

#[test]
fn a_name_belongs_to_the_last_pod_that_has_it() {
    let table = PodTable::new();
    table.apply(pod("web", "u-1", "n1").as_bytes()).unwrap();
    table.apply(pod("web", "u-2", "").as_bytes()).unwrap();
    assert_eq!((uid_of(&table, "web"), table.get("u-1"), table.len()), (Some("u-2".to_owned()), None, 1));
    // A late event of the first pod.
    table.remove("u-1");
    assert_eq!(uid_of(&table, "web"), Some("u-2".to_owned()));
    table.remove("u-2");
    assert!(table.is_empty() && uid_of(&table, "web").is_none());
}

#[test]
fn a_uid_has_one_name() {
    let table = PodTable::new();
    for name in ["web", "db"] {
        table.apply(pod(name, "u-1", "").as_bytes()).unwrap();
    }
    assert_eq!((uid_of(&table, "web"), uid_of(&table, "db")), (None, Some("u-1".to_owned())));
    table.remove("u-1");
    assert!(table.is_empty() && uid_of(&table, "db").is_none());
}

#[tokio::test]
async fn a_pod_that_is_waited_for_is_seen_on_its_node() {
    let table = PodTable::new();
    let relisted = || {
        let mut relist = table.relist();
        relist.add(pod("web", "u-1", "n1").as_bytes()).unwrap();
        table.replace(relist);
    };
    let applied = || table.apply(pod("web", "u-1", "n1").as_bytes()).unwrap();
    let events: [&dyn Fn(); 2] = [&applied, &relisted];
    for event in events {
        table.remove("u-1");
        table.apply(pod("web", "u-1", "").as_bytes()).unwrap();
        let mut seen = std::pin::pin!(table.on_a_node("u-1"));
        assert!(futures_util::poll!(&mut seen).is_pending());
        table.apply(pod("db", "u-2", "n2").as_bytes()).unwrap();
        assert!(futures_util::poll!(&mut seen).is_pending(), "another pod");
        event();
        assert_eq!(seen.await.node, "n1");
        assert_eq!(table.on_a_node("u-1").await.node, "n1", "already");
    }
}

#[test]
fn a_list_replaces_all_at_once() {
    let table = PodTable::new();
    table.apply(pod("web", "u-1", "n1").as_bytes()).unwrap();
    let mut relist = table.relist();
    relist.add(pod("db", "u-3", "n1").as_bytes()).unwrap();
    assert!(relist.add(b"[]").is_err());
    assert!(!table.is_synced());
    table.replace(relist);
    assert!(table.is_synced());
    assert_eq!((uid_of(&table, "web"), uid_of(&table, "db")), (None, Some("u-3".to_owned())));
}

/// The changed nodes with their numbers of pods, by name.
async fn changed(table: &PodTable) -> Vec<(String, i64)> {
    let nodes = async {
        loop {
            let nodes = table.usage.lock().take_changed(|_| Vec::new()).nodes;
            if !nodes.is_empty() {
                return nodes;
            }
            table.usage_changed().await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), nodes).await;
    let changed = waited.expect("a node has changed").into_iter();
    let pods = |pods: NodePods| pods.usage.requested.map_or(0, |requested| requested.pods);
    let mut changed: Vec<_> = changed.map(|(node, of_node)| (node.to_string(), pods(of_node))).collect();
    changed.sort();
    changed
}

fn pods_on(node: &str, pods: i64) -> (String, i64) {
    (node.to_owned(), pods)
}

#[tokio::test(start_paused = true)]
async fn usage_follows_the_pods() {
    let table = PodTable::new();
    let mut relist = table.relist();
    for (name, uid, node) in
        [("web", "u-1", "n1"), ("db", "u-2", "n2"), ("web", "u-3", "n2"), ("new", "u-4", "")]
    {
        relist.add(pod(name, uid, node).as_bytes()).unwrap();
    }
    table.replace(relist);
    assert_eq!(changed(&table).await, [pods_on("n2", 2)], "u-3 has the name of u-1 now");
    table.apply(pod("new", "u-4", "n1").as_bytes()).unwrap();
    table.apply(pod("db", "u-5", "n3").as_bytes()).unwrap();
    table.remove("u-2");
    assert_eq!(changed(&table).await, [pods_on("n1", 1), pods_on("n2", 1), pods_on("n3", 1)]);
    table.replace(table.relist());
    assert_eq!(changed(&table).await, [pods_on("n1", 0), pods_on("n2", 0), pods_on("n3", 0)]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_a_change() {
    let table = Arc::new(PodTable::new());
    let reader = tokio::spawn({
        let table = Arc::clone(&table);
        async move { changed(&table).await }
    });
    tokio::task::yield_now().await;
    table.apply(pod("web", "u-1", "n1").as_bytes()).unwrap();
    table.remove("u-1");
    tokio::task::yield_now().await;
    assert!(!reader.is_finished(), "nothing has changed");
    table.apply(pod("web", "u-1", "n1").as_bytes()).unwrap();
    assert_eq!(reader.await.unwrap(), [pods_on("n1", 1)]);
}

/// A pod with this much JSON in its spec.
fn large(namespace: &str, number: usize, bytes: usize) -> String {
    format!(
        r#"{{"metadata":{{"name":"p{number}","namespace":"{namespace}","uid":"{namespace}-{number}","labels":{{"app":"web"}}}},"spec":{{"nodeName":"n1","containers":[{{"env":"{}","resources":{{"requests":{{"cpu":"1"}}}}}}]}}}}"#,
        "x".repeat(bytes)
    )
}

fn cpu_on(table: &PodTable, node: &str) -> i64 {
    let change = table.usage.lock().take_changed(|_| Vec::new());
    let pods = change.nodes.into_iter().find(|(name, _)| &**name == node);
    pods.map_or(0, |(_, pods)| pods.usage.requested.map_or(0, |requested| requested.milli_cpu))
}

#[test]
fn large_pods_of_a_namespace_cost_no_other_and_all_requests_count() {
    let table = PodTable::new();
    let mib = 1 << 20;
    for number in 0..20 {
        table.apply(large("shop", number, mib).as_bytes()).unwrap();
        table.apply(large("shop", 100 + number, 1_000).as_bytes()).unwrap();
    }
    table.apply(large("other", 0, mib).as_bytes()).unwrap();
    // 15 of a little more than 1 MiB fit into 16 MiB; the small ones and those of other namespaces are whole.
    assert_eq!((table.crowded(), table.reduced()), (vec![("shop".to_owned(), 5)], 5));
    let whole = |uid: &str| table.get(uid).unwrap().whole();
    assert!(whole("shop-14").is_some_and(|json| (mib..mib + 300).contains(&json.len())));
    assert_eq!(
        (whole("shop-15"), whole("shop-119").is_some(), whole("other-0").is_some()),
        (None, true, true)
    );
    let bytes: usize = table.pods.read().by_uid.values().map(|pod| pod.json.len()).sum();
    assert!(bytes < 17 * mib + 20 * 2_000, "{bytes} bytes");
    assert_eq!(cpu_on(&table, "n1"), 41_000);
    // A list counts the same, by any attribute.
    let mut list = table.relist();
    for number in 0..20 {
        list.add(large("shop", number, mib).as_bytes()).unwrap();
    }
    table.replace(list);
    assert_eq!((table.reduced(), cpu_on(&table, "n1")), (5, 20_000));
    let by: Arc<[_]> = [CountedBy::Label("app".into())].into();
    assert!((0..20).all(|number| table.get(&format!("shop-{number}")).unwrap().attributes(&by).is_some()));
    // What becomes smaller, or goes, makes room for the next state of the others.
    for number in 0..5 {
        table.remove(&format!("shop-{number}"));
        table.apply(large("shop", 15 + number, mib).as_bytes()).unwrap();
    }
    assert_eq!((table.crowded(), table.reduced()), (Vec::new(), 0));
    assert_eq!(cpu_on(&table, "n1"), 15_000);
}

#[test]
fn an_assumed_pod_that_is_reduced_keeps_its_requests() {
    let table = PodTable::new();
    for number in 0..20 {
        table.apply(large("shop", number, 1 << 20).replace(r#""nodeName":"n1","#, "").as_bytes()).unwrap();
    }
    let json = large("shop", 19, 1).replace(r#""nodeName":"n1","#, "");
    table.assume(&pod::parse(json.as_bytes()).unwrap(), "n1").unwrap();
    assert_eq!(cpu_on(&table, "n1"), 1_000);
    let mut list = table.relist();
    for number in 0..20 {
        list.add(large("shop", number, 1 << 20).replace(r#""nodeName":"n1","#, "").as_bytes()).unwrap();
    }
    table.replace(list);
    assert!(table.get("shop-19").unwrap().whole().is_none());
    // The same sums are no change.
    table.remove("shop-19");
    assert_eq!(cpu_on(&table, "n1"), 0, "it was counted until now");
}

#[test]
fn a_pod_of_a_list_that_cannot_be_read_counts_as_before() {
    let table = PodTable::new();
    for number in 0..3 {
        table.apply(large("shop", number, 1).as_bytes()).unwrap();
    }
    let mut list = table.relist();
    list.add(large("shop", 0, 1).as_bytes()).unwrap();
    list.keep("shop-1".to_owned());
    list.keep("unknown".to_owned());
    table.replace(list);
    assert_eq!(cpu_on(&table, "n1"), 2_000, "the third is gone");
    assert!(table.get("shop-1").is_some() && table.get("shop-2").is_none());
    table.remove("shop-1");
    assert_eq!(cpu_on(&table, "n1"), 1_000);
    // Also one of which only a part is kept.
    for number in 0..20 {
        table.apply(large("shop", number, 1 << 20).as_bytes()).unwrap();
    }
    let reduced = table.reduced();
    assert!(reduced > 0);
    let mut list = table.relist();
    for number in 0..20 {
        list.keep(format!("shop-{number}"));
    }
    table.replace(list);
    assert_eq!((table.reduced(), cpu_on(&table, "n1")), (reduced, 20_000));
    for number in 0..20 {
        table.remove(&format!("shop-{number}"));
    }
    assert_eq!((table.reduced(), cpu_on(&table, "n1")), (0, 0));
}

/// Follows all pods, and notes what it is told.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl PodFollower for Notes {
    fn followed(&self) -> Vec<Arc<str>> {
        ["u-1", "u-2", "u-3", "u-4", "u-5"].map(Arc::from).into()
    }

    fn on_node(&self, uid: &str, node: &str) {
        self.0.lock().push(format!("{uid} on {node}"));
    }

    fn gone(&self, uid: &str) {
        self.0.lock().push(format!("{uid} gone"));
    }
}

#[test]
fn followers_are_told_what_becomes_of_pods() {
    let (table, notes) = (PodTable::new(), Arc::new(Notes::default()));
    let follow = || {
        let follower: Weak<dyn PodFollower> = Arc::<Notes>::downgrade(&notes);
        table.follow(follower);
    };
    follow();
    // It is told once.
    follow();
    let told = || std::mem::take(&mut *notes.0.lock());
    table.apply(pod("web", "u-1", "").as_bytes()).unwrap();
    assert_eq!(told(), [""; 0]);
    table.apply(pod("web", "u-1", "a").as_bytes()).unwrap();
    // Another pod of its name.
    table.apply(pod("web", "u-2", "").as_bytes()).unwrap();
    table.remove("u-2");
    let ended = pod("db", "u-3", "a").replace("{}}", r#"{"phase":"Failed"}}"#);
    table.apply(ended.as_bytes()).unwrap();
    assert_eq!(told(), ["u-1 on a", "u-1 gone", "u-2 gone", "u-3 gone"]);
    // What a list has that the watch has missed; nothing about u-5, which neither has had.
    table.apply(pod("web", "u-1", "").as_bytes()).unwrap();
    table.apply(pod("api", "u-4", "").as_bytes()).unwrap();
    let mut list = table.relist();
    list.add(pod("api", "u-4", "b").as_bytes()).unwrap();
    list.add(ended.as_bytes()).unwrap();
    table.replace(list);
    assert_eq!(told(), ["u-1 gone", "u-3 gone", "u-4 on b"]);
    let weak = Arc::downgrade(&notes);
    drop(notes);
    table.remove("u-4");
    assert_eq!(weak.strong_count(), 0);
}
