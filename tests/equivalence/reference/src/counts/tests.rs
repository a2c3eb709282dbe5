use super::*;
use crate::model::Container;

fn bound(node: Node, life: Life, team: Option<&str>) -> BoundPod {
    let labels = team.map(|team| ("team".to_owned(), team.to_owned()));
    let container = |place, cpu| Container {
        place,
        requests: BTreeMap::from([("cpu".to_owned(), cpu), ("example.com/disk".to_owned(), 1)]),
        limits: BTreeMap::new(),
    };
    let pod = Pod {
        namespace: "shop".into(),
        labels: labels.into_iter().collect(),
        containers: vec![container(Place::Main, 1), container(Place::Main, 1), container(Place::Init, 3)],
        ..Pod::default()
    };
    BoundPod { node, life, pod }
}

fn pods() -> Vec<BoundPod> {
    vec![
        bound(0, Life::Running, Some("a")),
        bound(0, Life::Terminating, Some("a")),
        bound(0, Life::Succeeded, Some("a")),
        bound(0, Life::Failed, Some("b")),
        bound(0, Life::Pending, Some("b")),
        bound(0, Life::Running, None),
        bound(1, Life::Running, Some("a")),
        bound(2, Life::Running, Some("b")),
    ]
}

#[test]
fn pods_on_a_node_count_until_they_have_ended() {
    let others = BTreeSet::from(["example.com/disk".to_owned()]);
    let with_requests = Counted::PodsAndRequests(others.clone());
    let others = others.into_iter().map(|resource| (resource, 4)).collect();
    let expected = Count {
        namespace: "shop".into(),
        value: "a".into(),
        pods: 2,
        terminating: 1,
        requested: Some(Requested { milli_cpu: 6000, memory: 0, others }),
    };
    assert_eq!(on_node(pods().iter(), 0, (CountedBy::Label("team"), &with_requests)), [expected]);
    let expected =
        Count { namespace: String::new(), value: "shop".into(), pods: 3, terminating: 1, requested: None };
    assert_eq!(on_node(pods().iter(), 0, (CountedBy::Namespace, &Counted::Pods)), [expected]);
    assert_eq!(on_node(pods().iter(), 0, (CountedBy::Owner, &Counted::Pods)), []);
}

#[test]
fn pods_that_are_like_a_pod_count_in_the_domain_of_their_node() {
    let zone = |node: Node| (node < 2).then(|| "z".to_owned());
    let domain = |pods, terminating| Count { value: "z".into(), pods, terminating, ..Count::default() };
    for (team, expected) in [(Some("a"), vec![domain(3, 1)]), (Some("b"), vec![]), (None, vec![])] {
        let pod = bound(9, Life::Pending, team).pod;
        assert_eq!(like(pods().iter(), &pod, (CountedBy::Label("team"), &Counted::Pods), zone), expected);
    }
}
