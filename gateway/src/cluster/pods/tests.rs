use super::*;

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
    // The end of the first one is heard late.
    table.remove("u-1");
    assert_eq!(uid_of(&table, "web"), Some("u-2".to_owned()));
    table.remove("u-2");
    assert!(table.is_empty() && uid_of(&table, "web").is_none());
}

#[test]
fn a_list_replaces_all_at_once() {
    let table = PodTable::new();
    table.apply(pod("web", "u-1", "n1").as_bytes()).unwrap();
    let mut relist = Relist::new();
    relist.add(pod("db", "u-3", "n1").as_bytes()).unwrap();
    assert!(relist.add(b"[]").is_err());
    assert!(!table.is_synced());
    table.replace(relist);
    assert!(table.is_synced());
    assert_eq!((uid_of(&table, "web"), uid_of(&table, "db")), (None, Some("u-3".to_owned())));
}
