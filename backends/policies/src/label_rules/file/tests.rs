//! Every mistake has a place and a remedy, and a valid file is read as written.

use super::*;

fn mistakes(text: &str) -> Vec<String> {
    read(text).unwrap_err().mistakes().iter().map(extender_config::Mistake::sentence).collect()
}

/// Each text, inserted at `{}` in `around`, has exactly this mistake.
fn assert_mistakes(around: &str, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let text = around.replace("{}", text);
        assert_eq!(mistakes(&text), [*expected], "{text}");
    }
}

const RULE_RIGHT: &str = "a mapping such as {prefer: [{key: disk, equals: ssd}], score: 10}";
const PODS_RIGHT: &str = "a mapping such as {namespaces: [shop]}, {} for all pods";
const LABEL: &str = "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, or \"\"";

#[test]
fn mistakes_of_the_whole_file() {
    let cases = [
        ("", "is empty; expected a mapping with rules"),
        ("7", "7 is a number; expected a mapping with rules"),
        ("a: b", "rules: is missing; expected a list of rules"),
        ("rules: {}", "rules: is a mapping; expected a list of rules"),
        ("rules: [7]", &format!("rules[0]: 7 is a number; expected {RULE_RIGHT}")),
        ("normalize: Max", "rules: is missing; expected a list of rules"),
    ];
    for (text, expected) in cases {
        assert!(mistakes(text).contains(&expected.to_owned()), "{text} {:?}", mistakes(text));
    }
    let around = "rules: [{prefer: [{key: a, equals: b}], score: 1}]\n{}";
    let cases = [
        ("normalize: Mean", "normalize: unknown value \"Mean\"; expected None, Range, Max or MinMax"),
        (
            "normalise: Max",
            "normalise: unknown field; did you mean normalize? Known fields: rules, normalize",
        ),
    ];
    assert_mistakes(around, &cases);
}

#[test]
fn mistakes_of_a_rule() {
    let none = "rules[0]: has no require, no prefer and no protect; \
               add require with a reason, prefer with a score, or protect";
    let cases = [
        ("", none),
        ("name: x", none),
        ("require: [], prefer: []", "rules[0]: has require and prefer; expected a rule for each"),
        ("prefer: [], protect: {}", "rules[0]: has prefer and protect; expected a rule for each"),
    ];
    assert_mistakes("rules: [{{}}]", &cases);
    let right = "prefer: [{key: a, equals: b}], score: 1";
    let cases = [
        ("name: 7", &*format!("rules[0].name: 7 without quotes is a number; expected {NAME}")),
        ("name: ''", &format!("rules[0].name: is empty; expected {NAME}")),
        (&format!("name: {}", "n".repeat(64)), &format!("rules[0].name: has 64 bytes; expected {NAME}")),
        ("name: \"a\\nb\"", &format!("rules[0].name: contains a line break; expected {NAME}")),
        (
            "pods: {namespaces: []}",
            "rules[0].pods.namespaces: is an empty list; expected a list with at least one namespace such as [shop]",
        ),
        (
            "pods: {labels: [{key: a, in: [1]}]}",
            &format!("rules[0].pods.labels[0].in[0]: 1 without quotes is a number; expected {LABEL}"),
        ),
        ("pods: {names: [a]}", "rules[0].pods.names: unknown field; known fields: namespaces, labels"),
    ];
    assert_mistakes(&format!("rules: [{{{{}}, {right}}}]"), &cases);
}

#[test]
fn mistakes_of_a_reason() {
    let mangled =
        format!("rules[0].reason: contains % or a line break, which corrupts events; expected {REASON}");
    let long = format!("reason: {}", "r".repeat(201));
    let cases = [
        ("name: x", &*format!("rules[0].reason: is missing; expected {REASON}")),
        ("reason: ''", &format!("rules[0].reason: is empty; expected {REASON}")),
        ("reason: 9%", &mangled),
        ("reason: \"a\\nb\"", &mangled),
        (&long, &format!("rules[0].reason: has 201 bytes; expected {REASON}")),
        ("reason: r, score: 1", "rules[0].score: belongs to prefer; remove it"),
    ];
    assert_mistakes("rules: [{require: [{key: a, exists: true}], {}}]", &cases);
}

#[test]
fn mistakes_of_a_score() {
    let cases = [
        ("name: x", &*format!("rules[0].score: is missing; expected {SCORE}")),
        ("score: 0", &format!("rules[0].score: is 0, which changes nothing; expected {SCORE}")),
        ("score: 1.5", &format!("rules[0].score: 1.5 is not a whole number; expected {SCORE}")),
        (
            "score: 3000000000",
            "rules[0].score: 3000000000 is out of range; expected -2147483648 to 2147483647",
        ),
        ("score: 1, reason: r", "rules[0].reason: belongs to require; remove it"),
    ];
    assert_mistakes("rules: [{prefer: [{key: a, exists: true}], {}}]", &cases);
}

#[test]
fn mistakes_of_a_protection() {
    let cases = [
        ("protect: [a]", &*format!("rules[0].protect: is a list; expected {PODS_RIGHT}")),
        (
            "protect: {labels: []}",
            &format!("rules[0].protect.labels: is an empty list; expected {REQUIREMENTS}"),
        ),
        ("protect: {}, reason: r", "rules[0].reason: belongs to require; remove it"),
        ("protect: {}, score: 1", "rules[0].score: belongs to prefer; remove it"),
    ];
    assert_mistakes("rules: [{{}}]", &cases);
}

#[test]
fn mistakes_of_a_requirement() {
    let number = "a whole number";
    let cases = [
        ("exists: true", format!(".key: is missing; expected {LABEL_KEY}")),
        ("key: 'a b', exists: true", format!(".key: \"a b\" is not a label key; expected {LABEL_KEY}")),
        ("key: a/b/c, exists: true", format!(".key: \"a/b/c\" is not a label key; expected {LABEL_KEY}")),
        (
            "key: a",
            ": has no condition; expected one of equals, in, notIn, exists, greaterThan, lessThan".to_owned(),
        ),
        (
            "key: a, exists: true, in: [b]",
            ": has in and exists; expected one condition in each requirement".to_owned(),
        ),
        ("key: a, equals: [b]", format!(".equals: is a list; expected {LABEL}")),
        ("key: a, equals: true", format!(".equals: true without quotes is a boolean; expected {LABEL}")),
        ("key: a, equals: -x", format!(".equals: \"-x\" is not a label value; expected {LABEL}")),
        ("key: a, in: b", format!(".in: \"b\" is a string; expected {VALUES}")),
        ("key: a, in: []", format!(".in: is an empty list; expected {VALUES}")),
        ("key: a, notIn: [b, 7]", format!(".notIn[1]: 7 without quotes is a number; expected {LABEL}")),
        ("key: a, exists: maybe", ".exists: \"maybe\" is a string; expected true or false".to_owned()),
        ("key: a, greaterThan: b", format!(".greaterThan: \"b\" is a string; expected {number}")),
    ];
    let cases = cases.map(|(text, expected)| (text, format!("rules[0].require[1]{expected}")));
    let cases: Vec<_> = cases.iter().map(|(text, expected)| (*text, &**expected)).collect();
    assert_mistakes("rules: [{require: [{key: a, exists: true}, {{}}], reason: r}]", &cases);
}

#[test]
fn what_is_not_yaml_is_reported_with_its_line() {
    let expected = "line 1: invalid YAML: unclosed bracket '[' at line 1, column 8; expected a single valid YAML document";
    assert_eq!(read("rules: [").unwrap_err().to_string(), expected);
    let expected = "line 3: rules[0].score: is defined twice, first on line 2; remove one of them";
    let repeated = read("rules:\n- score: 1\n  score: 2\n").unwrap_err().to_string();
    assert!(repeated.contains(expected), "{repeated}");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "
normalise: Max
rules:
- require: [{key: 'a b', in: [1, 2]}, {key: a}]
  pods: {namespaces: [], labels: [{key: x, equals: 3}]}
- prefer: []
  score: 0
- {}
";
    let places: Vec<_> =
        mistakes(text).iter().map(|line| line.split(": ").next().unwrap().to_owned()).collect();
    let expected = [
        "normalise",
        "rules[0].reason",
        "rules[0].require[0].key",
        "rules[0].require[0].in[0]",
        "rules[0].require[0].in[1]",
        "rules[0].require[1]",
        "rules[0].pods.namespaces",
        "rules[0].pods.labels[0].equals",
        "rules[1].prefer",
        "rules[1].score",
        "rules[2]",
    ];
    assert_eq!(places, expected);
}

#[test]
fn every_condition_is_read() {
    let text = "
rules:
- require:
  - {key: a, equals: b}
  - {key: acme.io/a, in: [b, c]}
  - {key: a, notIn: [b, '']}
  - {key: a, exists: true}
  - {key: a, exists: false}
  - {key: a, greaterThan: -1}
  - {key: a, lessThan: 5}
  reason: ' because '
";
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let [refusal] = &read(text).unwrap().refusals[..] else { panic!("one rule") };
    assert_eq!(&*refusal.reason, "because");
    let conditions: Vec<_> =
        refusal.require.iter().map(|requirement| requirement.condition.clone()).collect();
    let expected = [
        LabelCondition::In(texts(&["b"])),
        LabelCondition::In(texts(&["b", "c"])),
        LabelCondition::NotIn(texts(&["b", ""])),
        LabelCondition::Exists,
        LabelCondition::Absent,
        LabelCondition::GreaterThan(-1),
        LabelCondition::LessThan(5),
    ];
    assert_eq!(conditions, expected);
    assert_eq!(refusal.require[1].key, "acme.io/a");
}

proptest::proptest! {
    #[test]
    fn no_text_makes_reading_panic(text in "[-{}\\[\\]:, a-z0-9'\"\n]{0,80}") {
        drop(read(&format!("rules: {text}")));
        drop(read(&text));
    }
}
