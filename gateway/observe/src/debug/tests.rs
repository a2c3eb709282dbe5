use extender_gateway_core::{
    FailureKind,
    score::{Direction, Normalization},
};
use extender_gateway_record::Outcome;

use super::*;

use crate::samples::{failed, part, record, refused, scored};

#[tokio::test]
async fn the_best_nodes_come_first_with_what_each_policy_adds() {
    let spread = Normalization::MinMax(Direction::LargestIsBest);
    let parts = vec![
        part("zones", scored((2, Normalization::None), None, &[3, 7, 3])),
        part("racks", scored((1, spread), Some(&[0, 2]), &[-1, 5])),
        part("lost", failed(FailureKind::Late)),
    ];
    let record = record("web", &["a", "b", "c"], parts);
    let expected = "\
| # | Pod | Node | Score | zones | racks |
| --- | --- | --- | --- | --- | --- |
| 0 | shop/web | c | 16 | 6 | 10 |
| 1 | shop/web | b | 14 | 14 | - |
| 2 | shop/web | a | 6 | 6 | 0 |
";
    assert_eq!(scores(&record, 10).as_deref(), Some(expected));
    let two: Vec<&str> = expected.lines().take(4).collect();
    assert_eq!(scores(&record, 2).unwrap().lines().collect::<Vec<_>>(), two);
}

#[tokio::test]
async fn of_equal_nodes_the_first_comes_first_and_fractions_have_two_decimals() {
    let share = Normalization::Max(Direction::LargestIsBest);
    let record = record("web", &["a", "b", "c"], vec![part("p", scored((1, share), None, &[1, 1, 3]))]);
    let expected = "\
| # | Pod | Node | Score | p |
| --- | --- | --- | --- | --- |
| 0 | shop/web | c | 10 | 10 |
| 1 | shop/web | a | 3 | 3.33 |
| 2 | shop/web | b | 3 | 3.33 |
";
    assert_eq!(scores(&record, 10).as_deref(), Some(expected));
}

#[tokio::test]
async fn each_rejected_node_has_the_reasons_of_all_policies() {
    let parts = vec![
        part("zones", refused(&[("in | drain\nnow", &[2]), ("full", &[0])])),
        part("racks", refused(&[("no power", &[2])])),
        part("lost", failed(FailureKind::Late)),
    ];
    let record = record("web", &["a", "b", "c"], parts);
    let expected = "\
| # | Pod | Node | zones | racks |
| --- | --- | --- | --- | --- |
| 0 | shop/web | a | full |  |
| 1 | shop/web | c | in   drain now | no power |
";
    assert_eq!(rejections(&record, 10).as_deref(), Some(expected));
    assert_eq!(rejections(&record, 1).unwrap().lines().count(), 3);
}

#[tokio::test]
async fn names_that_strangers_chose_stay_in_their_cells() {
    let parts = vec![part("zones", refused(&[("\u{1b}[31m", &[0])]))];
    let table = rejections(&record("we|b\n| 9", &["a\r\n|"], parts), 10).unwrap();
    assert_eq!(table.lines().nth(2), Some("| 0 | shop/we b   9 | a    |  [31m |"), "{table}");
    assert_eq!(table.lines().count(), 3);
}

#[tokio::test]
async fn where_there_is_nothing_to_say_there_is_no_table() {
    let nothing = record("web", &["a"], vec![part("zones", Outcome::Pending), part("racks", refused(&[]))]);
    assert_eq!((scores(&nothing, 10), rejections(&nothing, 10)), (None, None));
}
