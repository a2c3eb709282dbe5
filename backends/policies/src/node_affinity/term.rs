//! Which nodes one term selects. Mirrors `nodeSelectorTerm` of k8s.io/component-helpers/scheduling and, below it,
//! the label and field selectors of apimachinery.

use extender_policy_sdk::{Node, NodeSelectorRequirement, NodeSelectorTerm};

use extender_config::names;

/// The only supported field of a node.
pub(super) const NAME: &str = "metadata.name";

/// Requirements that a node must all meet; at least one.
#[derive(Debug)]
pub(super) struct ParsedTerm<'a> {
    requirements: Vec<TermRequirement<'a>>,
}

#[derive(Debug)]
enum TermRequirement<'a> {
    Label { key: &'a str, test: Test<'a> },
    Field { key: &'a str, value: &'a str, wanted: Wanted },
}

/// A requirement on a label.
#[derive(Debug)]
enum Test<'a> {
    In(&'a [String]),
    NotIn(&'a [String]),
    Exists,
    DoesNotExist,
    Gt(i64),
    Lt(i64),
}

#[derive(Debug, PartialEq)]
enum Wanted {
    Equal,
    Different,
}

impl<'a> ParsedTerm<'a> {
    /// `None` for an empty term, which selects nothing.
    ///
    /// # Errors
    ///
    /// The first requirement that cannot be read: its place in the term, and the cause.
    pub(super) fn read(term: &'a NodeSelectorTerm) -> Result<Option<Self>, String> {
        let labels = term.match_expressions.iter().enumerate().map(|(at, requirement)| {
            label(requirement).map_err(|wrong| format!("matchExpressions[{at}]{wrong}"))
        });
        let fields =
            term.match_fields.iter().enumerate().map(|(at, requirement)| {
                field(requirement).map_err(|wrong| format!("matchFields[{at}]{wrong}"))
            });
        let requirements = labels.chain(fields).collect::<Result<Vec<_>, _>>()?;
        Ok(Some(Self { requirements }).filter(|term| !term.requirements.is_empty()))
    }

    pub(super) fn selects(&self, node: Node<'_>) -> bool {
        self.requirements.iter().all(|requirement| requirement.holds(node))
    }
}

impl TermRequirement<'_> {
    fn holds(&self, node: Node<'_>) -> bool {
        match self {
            Self::Label { key, test } => test.holds(node.label(key)),
            Self::Field { key, value, wanted } => {
                let has = if *key == NAME { node.name() } else { "" };
                (has == *value) == (*wanted == Wanted::Equal)
            }
        }
    }
}

impl Test<'_> {
    /// Mirrors `Requirement.Matches` of apimachinery. `None`: the node does not have the label.
    fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|v| v == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => among(values),
            Self::NotIn(values) => !among(values),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Gt(limit) => number().is_some_and(|number| number > *limit),
            Self::Lt(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

/// Mirrors `NewRequirement` of apimachinery.
fn label(requirement: &NodeSelectorRequirement) -> Result<TermRequirement<'_>, String> {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    if !names::is_qualified_name(key) {
        return Err(format!(
            ".key {key:?} is not a label key; expected a key such as topology.kubernetes.io/zone"
        ));
    }
    let test = test(operator, values)?;
    if let Some((at, value)) = values.iter().enumerate().find(|(_, value)| !names::is_label_value(value)) {
        let right = "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends";
        return Err(format!(".values[{at}] is {value:?}, which no label can have; {right}"));
    }
    Ok(TermRequirement::Label { key, test })
}

fn test<'a>(operator: &str, values: &'a [String]) -> Result<Test<'a>, String> {
    match (operator, values) {
        ("In" | "NotIn", []) => Err(format!(".values is empty; {operator} needs at least one")),
        ("In", _) => Ok(Test::In(values)),
        ("NotIn", _) => Ok(Test::NotIn(values)),
        ("Exists", []) => Ok(Test::Exists),
        ("DoesNotExist", []) => Ok(Test::DoesNotExist),
        ("Exists" | "DoesNotExist", _) => Err(format!(".values is not empty; {operator} knows none")),
        ("Gt", [limit]) => number(limit).map(Test::Gt),
        ("Lt", [limit]) => number(limit).map(Test::Lt),
        ("Gt" | "Lt", _) => Err(format!(".values has {} values; {operator} needs exactly one", values.len())),
        _ => Err(format!(".operator is {operator:?}; expected In, NotIn, Exists, DoesNotExist, Gt or Lt")),
    }
}

fn number(limit: &str) -> Result<i64, String> {
    limit.parse().map_err(|_| format!(".values[0] is {limit:?}; expected a whole number of 64 bits"))
}

/// Mirrors `nodeSelectorRequirementsAsFieldSelector`: fields other than the name are empty.
fn field(requirement: &NodeSelectorRequirement) -> Result<TermRequirement<'_>, String> {
    let NodeSelectorRequirement { key, operator, values } = requirement;
    let wanted = match operator.as_str() {
        "In" => Wanted::Equal,
        "NotIn" => Wanted::Different,
        _ => return Err(format!(".operator is {operator:?}; expected In or NotIn for a field")),
    };
    match &values[..] {
        [value] => Ok(TermRequirement::Field { key, value, wanted }),
        _ => Err(format!(".values has {} values; a field is compared with exactly one", values.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        NodeSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
    }

    #[test]
    fn operators_test_labels_as_in_kubernetes() {
        // Operator, values, then whether it holds for "5", "x" and no label.
        for (operator, values, expected) in [
            ("In", &["5", "6"][..], [true, false, false]),
            ("NotIn", &["5"], [false, true, true]),
            ("Exists", &[], [true, true, false]),
            ("DoesNotExist", &[], [false, false, true]),
            ("Gt", &["4"], [true, false, false]),
            ("Gt", &["5"], [false, false, false]),
            ("Lt", &["06"], [true, false, false]),
            ("Lt", &["5"], [false, false, false]),
        ] {
            let requirement = requirement("k", operator, values);
            let Ok(TermRequirement::Label { test, .. }) = label(&requirement) else {
                panic!("{requirement:?}")
            };
            assert_eq!([Some("5"), Some("x"), None].map(|value| test.holds(value)), expected, "{test:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_place() {
        let long = "v".repeat(64);
        for (labels, key, operator, values, expected) in [
            (true, "", "Exists", &[][..], "matchExpressions[0].key \"\" is not a label key"),
            (true, "k", "in", &["v"], "matchExpressions[0].operator is \"in\"; expected In, NotIn,"),
            (true, "k", "In", &[], "matchExpressions[0].values is empty; In needs"),
            (true, "k", "In", &["v", &long], "values[1] is \"vvv"),
            (true, "k", "Exists", &["v"], "values is not empty; Exists knows none"),
            (true, "k", "Gt", &["1", "2"], "values has 2 values; Gt needs exactly one"),
            (true, "k", "Lt", &["1.5"], "values[0] is \"1.5\"; expected a whole number"),
            (true, "k", "Gt", &["-5"], "values[0] is \"-5\", which no label can have; at most 63"),
            (false, NAME, "Exists", &[], "matchFields[0].operator is \"Exists\"; expected In or NotIn"),
            (false, NAME, "In", &["a", "b"], "matchFields[0].values has 2 values"),
        ] {
            let requirements = vec![requirement(key, operator, values)];
            let (match_expressions, match_fields) =
                if labels { (requirements, vec![]) } else { (vec![], requirements) };
            let error = ParsedTerm::read(&NodeSelectorTerm { match_expressions, match_fields }).unwrap_err();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
    }

    #[test]
    fn an_empty_term_is_none() {
        assert!(ParsedTerm::read(&NodeSelectorTerm::default()).unwrap().is_none());
    }
}
