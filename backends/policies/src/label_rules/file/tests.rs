//! Every mistake has a place and a remedy, and what is right is read as it stands.

use super::*;

fn mistakes(text: &str) -> Vec<String> {
    read(text).unwrap_err().lines().to_vec()
}

/// Each text, put into the place `{}` of `around`, has exactly this mistake.
fn assert_mistakes(around: &str, cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let text = around.replace("{}", text);
        assert_eq!(mistakes(&text), [*expected], "{text}");
    }
}

#[test]
fn mistakes_of_the_whole_file() {
    let cases = [
        ("", "the file is empty; it must be a mapping"),
        ("7", "the file is 7; it must be a mapping"),
        ("a: b", "a is not known; rules, normalize are"),
        ("rules: {}", "rules is a mapping; it must be a list"),
        ("rules: [7]", "rules[0] is 7; it must be a mapping"),
    ];
    for (text, expected) in cases {
        assert_eq!(mistakes(text)[0], expected, "{text}");
    }
    assert_eq!(mistakes("normalize: Max"), ["the file has no rules; it is a list of rules"]);
    let around = "rules: [{prefer: [{key: a, equals: b}], score: 1}]\n{}";
    let cases = [
        ("normalize: Mean", "normalize is \"Mean\"; None, Range, Max or MinMax are right"),
        ("normalise: Max", "normalise is not known; rules, normalize are"),
    ];
    assert_mistakes(around, &cases);
}

#[test]
fn mistakes_of_a_rule() {
    let a_or_b = "rules[0] has no require (with reason), no prefer (with score) and no protect; add one";
    let cases = [
        ("", a_or_b),
        ("name: x", a_or_b),
        ("require: [], prefer: []", "rules[0] has require and prefer; make a rule of each"),
        ("prefer: [], protect: {}", "rules[0] has prefer and protect; make a rule of each"),
    ];
    assert_mistakes("rules: [{{}}]", &cases);
    let right = "prefer: [{key: a, equals: b}], score: 1";
    let cases = [
        ("name: 7", "rules[0].name is 7; it must be text: write \"7\""),
        ("pods: {namespaces: []}", "rules[0].pods.namespaces is empty; at least one namespace is right"),
        (
            "pods: {labels: [{key: a, in: [1]}]}",
            "rules[0].pods.labels[0].in[0] is 1; it must be text: write \"1\"",
        ),
        ("pods: {names: [a]}", "rules[0].pods.names is not known; namespaces, labels are"),
    ];
    assert_mistakes(&format!("rules: [{{{{}}, {right}}}]"), &cases);
}

#[test]
fn mistakes_of_a_reason() {
    let mangled = "rules[0].reason holds % or a line break, which mangles events";
    let long = format!("reason: {}", "r".repeat(201));
    let cases = [
        ("name: x", "rules[0] has no reason; it is why nodes are refused, for people"),
        ("reason: ''", "rules[0].reason is empty; say why nodes are refused"),
        ("reason: 9%", mangled),
        ("reason: \"a\\nb\"", mangled),
        (&long, "rules[0].reason has 201 bytes; at most 200 reach the pod"),
        ("reason: r, score: 1", "rules[0].score belongs to prefer; a rule with require has a reason"),
    ];
    assert_mistakes("rules: [{require: [{key: a, exists: true}], {}}]", &cases);
}

#[test]
fn mistakes_of_a_score() {
    let cases = [
        ("name: x", "rules[0] has no score; it is what a node that meets all gets, such as 10"),
        ("score: 0", "rules[0].score is 0, which changes nothing; any other whole number is right"),
        ("score: 1.5", "rules[0].score is 1.5; it must be a whole number"),
        ("score: 3000000000", "rules[0].score is too large; -2147483648 to 2147483647 are right"),
        ("score: 1, reason: r", "rules[0].reason belongs to require; a rule with prefer has a score"),
    ];
    assert_mistakes("rules: [{prefer: [{key: a, exists: true}], {}}]", &cases);
}

#[test]
fn mistakes_of_a_protection() {
    let cases = [
        ("protect: [a]", "rules[0].protect is a list; it must be a mapping"),
        ("protect: {labels: []}", "rules[0].protect.labels is empty; at least one requirement is right"),
        (
            "protect: {}, reason: r",
            "rules[0].reason belongs to require; kube-scheduler shows none for protected pods",
        ),
        ("protect: {}, score: 1", "rules[0].score belongs to prefer; a rule with protect has none"),
    ];
    assert_mistakes("rules: [{{}}]", &cases);
}

#[test]
fn mistakes_of_a_requirement() {
    let cases = [
        ("exists: true", " has no key; it is a label's key"),
        ("key: 'a b', exists: true", ".key is \"a b\", which no label can have as its key"),
        ("key: a/b/c, exists: true", ".key is \"a/b/c\", which no label can have as its key"),
        ("key: a", " has no condition; one of equals, in, notIn, exists, greaterThan, lessThan is right"),
        ("key: a, exists: true, in: [b]", " has in and exists; one condition a requirement is right"),
        ("key: a, equals: [b]", ".equals is a list; it must be text"),
        ("key: a, equals: true", ".equals is true; it must be text: write \"true\""),
        ("key: a, equals: -x", ".equals is \"-x\", which no label can have as its value"),
        ("key: a, in: b", ".in is \"b\"; it must be a list"),
        ("key: a, in: []", ".in is empty; at least one value is right"),
        ("key: a, notIn: [b, 7]", ".notIn[1] is 7; it must be text: write \"7\""),
        ("key: a, exists: maybe", ".exists is \"maybe\"; it must be true or false"),
        ("key: a, greaterThan: b", ".greaterThan is \"b\"; it must be a whole number"),
    ];
    let cases = cases.map(|(text, expected)| (text, format!("rules[0].require[1]{expected}")));
    let cases: Vec<_> = cases.iter().map(|(text, expected)| (*text, &**expected)).collect();
    assert_mistakes("rules: [{require: [{key: a, exists: true}, {{}}], reason: r}]", &cases);
}

#[test]
fn what_is_not_yaml_is_said_with_its_line() {
    for (text, expected) in [("rules: [", "line 1"), ("rules:\n- score: 1\n  score: 2\n", "line 3")] {
        let [mistake] = &mistakes(text)[..] else { panic!("one mistake: {text}") };
        assert!(mistake.starts_with("the file is not YAML that can be read: "), "{mistake}");
        assert!(mistake.contains(expected), "{mistake}");
    }
}

#[test]
fn all_mistakes_come_together_and_one_look_is_enough() {
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
        mistakes(text).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    let expected = [
        "normalise",
        "rules[0].pods.namespaces",
        "rules[0].pods.labels[0].equals",
        "rules[0].require[0].key",
        "rules[0].require[0].in[0]",
        "rules[0].require[0].in[1]",
        "rules[0].require[1]",
        "rules[0]",
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
        Condition::In(texts(&["b"])),
        Condition::In(texts(&["b", "c"])),
        Condition::NotIn(texts(&["b", ""])),
        Condition::Exists,
        Condition::Absent,
        Condition::GreaterThan(-1),
        Condition::LessThan(5),
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
