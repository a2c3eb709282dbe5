use bytes::Bytes;
use extender_gateway_core::filter::Group;

use super::*;
use crate::wire::Request;

const POD_A: u64 = 1;
const HELD: Duration = Duration::from_secs(30);

fn request(nodes: usize) -> Request {
    let names: Vec<String> = (0..nodes).map(|node| format!("node-{node}")).collect();
    let body = serde_json::json!({"Pod": {}, "NodeNames": names}).to_string();
    Request::read(Bytes::from(body)).unwrap()
}

/// Runs a call in which each node is rejected for its own reason; returns the resulting texts.
fn call(texts: &mut FirstReasons, pod: u64, given: &[String]) -> (HeldReasons, Vec<String>, usize) {
    let request = request(given.len());
    let group = Group { by: By::Seat(0), reason: String::new(), preemption_may_help: false };
    let nodes = (0..).take(given.len()).map(Some).collect();
    let mut rejected = Rejected { groups: vec![group; given.len()], nodes };
    let mut reasons: Vec<Reason> =
        given.iter().map(|text| Reason { text: text.clone(), preemption_may_help: false }).collect();
    let backends = vec!["racks"; given.len()];
    let about = (&request.names, backends.as_slice());
    let held = texts.hold(pod, Instant::now(), about, (&mut rejected, &mut reasons));
    let said = rejected.nodes.iter().map(|group| reasons[group.unwrap() as usize].text.clone()).collect();
    assert_eq!(rejected.groups.len(), reasons.len());
    (held, said, rejected.groups.len())
}

fn texts_of(nodes: usize, what: &str) -> Vec<String> {
    (0..nodes).map(|node| format!("{what} {node}")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_first_text_is_kept_for_a_while() {
    let mut texts = FirstReasons::new(HELD);
    let mut said = |given: &str| call(&mut texts, POD_A, &[given.to_owned()]).1;
    assert_eq!(said("3 gpus"), ["3 gpus"]);
    tokio::time::advance(HELD / 2).await;
    assert_eq!(said("4 gpus"), ["3 gpus"]);
    tokio::time::advance(HELD / 2).await;
    assert_eq!(said("5 gpus"), ["5 gpus"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_one_first_text_share_a_group() {
    let mut texts = FirstReasons::new(HELD);
    let (held, _, groups) = call(&mut texts, POD_A, &vec!["full".to_owned(); 100]);
    assert_eq!((held, groups), (HeldReasons::default(), 100));
    let (held, said, groups) = call(&mut texts, POD_A, &texts_of(100, "busy"));
    assert_eq!((held.changed, said, groups), (100, vec!["full".to_owned(); 100], 101));
    assert_eq!(texts.pods[&POD_A].texts.len(), 1);
}

/// With a search for each node this takes minutes.
#[tokio::test(start_paused = true)]
async fn each_of_100_000_nodes_may_have_a_text_of_its_own() {
    const NODES: usize = 100_000;
    let mut texts = FirstReasons::new(HELD);
    let first = texts_of(NODES, "busy since");
    call(&mut texts, POD_A, &first);
    let (held, said, _) = call(&mut texts, POD_A, &texts_of(NODES, "busy until"));
    assert_eq!(held, HeldReasons { changed: NODES, forgotten: 0 });
    assert!(said == first);
}

#[tokio::test(start_paused = true)]
async fn memory_is_bounded_in_bytes_and_comes_back() {
    const NODES: usize = 10_000;
    let long = "x".repeat(200);
    let given = texts_of(NODES, &long);
    let mut texts = FirstReasons::new(HELD);
    let pods = MOST / (NODES * (NODE + TEXT + long.len())) + 1;
    let forgotten: usize = (0..pods as u64).map(|pod| call(&mut texts, pod, &given).0.forgotten).sum();
    assert!(forgotten > 0 && texts.taken <= MOST && texts.taken > MOST - NODE - TEXT - 2 * long.len());
    let counted: usize = texts.pods.values().map(|pod| pod.taken).sum();
    assert_eq!(texts.taken, counted);
    assert_eq!(call(&mut texts, u64::MAX, &given[..1]).0.forgotten, 1);
    assert!(!texts.pods.contains_key(&u64::MAX), "a pod without texts takes nothing");
    tokio::time::advance(FORGOTTEN).await;
    assert_eq!(call(&mut texts, u64::MAX, &given).0, HeldReasons::default());
    assert_eq!(texts.pods.len(), 1);
}
