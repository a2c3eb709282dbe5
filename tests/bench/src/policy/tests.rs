use extender_policy_sdk::testing;

use super::*;

fn policy(declaration: Declaration, reads: ReadsDeclared) -> LabelPolicy {
    LabelPolicy::new(Settings {
        name: "rack".to_owned(),
        declaration,
        reads,
        table: Table::On,
        refuse: "rack=r2".parse().unwrap(),
        prefer: vec!["zone=a:3".parse().unwrap(), "rack=r1:-2".parse().unwrap()],
    })
}

#[test]
fn texts_that_are_no_labels_are_refused() {
    assert_eq!("rack".parse::<Label>().unwrap_err().to_string(), "`rack` is not KEY=VALUE");
    for text in ["rack=r1", "rack:3", "rack=r1:x"] {
        assert!(text.parse::<Preference>().is_err(), "{text}");
    }
    let preference: Preference = "a.io/rack=r:1:7".parse().unwrap();
    assert_eq!((preference.label.value.as_str(), preference.score), ("r:1", 7));
}

#[test]
fn declarations_change_nothing_about_decisions() {
    let nodes = [
        testing::TestNode::new("one").label("rack", "r1").label("zone", "a"),
        testing::TestNode::new("two").label("rack", "r2"),
        testing::TestNode::new("bare"),
    ];
    let pod = testing::TestPod::new("shop");
    for declaration in [Declaration::Pure, Declaration::Node, Declaration::Set] {
        for reads in [ReadsDeclared::Labels, ReadsDeclared::All] {
            let refused = testing::filter(policy(declaration, reads), &pod, &nodes).unwrap();
            assert_eq!(refused, [("two".to_owned(), "label rack is r2".to_owned())], "{declaration:?}");
            let scores = testing::score(policy(declaration, reads), &pod, &nodes).unwrap();
            assert_eq!(scores, [1, 0, 0], "{declaration:?} {reads:?}");
        }
    }
}
