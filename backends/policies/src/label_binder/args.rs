//! The operator's args: which labels become which annotations.

use std::collections::BTreeMap;

use extender_policy_sdk::ArgsError;
use serde::Deserialize;

use super::Pairs;
use extender_config::names;

/// As the operator wrote them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BinderArgs {
    labels: Vec<String>,
    prefix: Option<String>,
}

/// The annotation for each label.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Annotations {
    key_of_label: BTreeMap<String, String>,
}

impl Annotations {
    /// Without a prefix an annotation has the key of its label; with one, the part before the slash is replaced.
    pub(super) fn new(fields: BinderArgs) -> Result<Self, ArgsError> {
        let BinderArgs { labels, prefix } = fields;
        if labels.is_empty() {
            return Err(ArgsError::new(
                "args.labels is empty; expected a list such as [topology.kubernetes.io/zone]",
            ));
        }
        if let Some(prefix) = prefix.as_deref().filter(|prefix| !names::is_dns_subdomain(prefix)) {
            let wrong = "is not a DNS name; what stands before a slash is, such as node.example.com";
            return Err(ArgsError::new(format!("args.prefix {prefix:?} {wrong}")));
        }
        let mut key_of_label = BTreeMap::new();
        for (at, label) in labels.into_iter().enumerate() {
            let key = key(&label, prefix.as_deref())
                .map_err(|wrong| ArgsError::new(format!("args.labels[{at}] {wrong}")))?;
            if let Some((other, _)) = key_of_label.iter().find(|(_, taken)| **taken == key) {
                let both =
                    format!("args.labels[{at}] {label:?} becomes the annotation {key}, as {other:?} does");
                return Err(ArgsError::new(format!("{both}; remove one of them")));
            }
            key_of_label.insert(label, key);
        }
        Ok(Self { key_of_label })
    }

    /// The annotations for a node with these labels. A label that it does not have is omitted.
    pub(super) fn of(&self, labels: &Pairs) -> Pairs {
        let value = |(label, key): (&String, &String)| Some((key.clone(), labels.get(label)?.clone()));
        self.key_of_label.iter().filter_map(value).collect()
    }
}

fn key(label: &str, prefix: Option<&str>) -> Result<String, String> {
    if !names::is_qualified_name(label) {
        return Err(format!(
            "{label:?} is not a label key; expected a key such as topology.kubernetes.io/zone"
        ));
    }
    let name = label.split_once('/').map_or(label, |(_, name)| name);
    Ok(prefix.map_or_else(|| label.to_owned(), |prefix| format!("{prefix}/{name}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use extender_policy_sdk::Args;

    fn annotations(json: &str) -> Result<Annotations, ArgsError> {
        Annotations::new(Args::new(json.as_bytes())?.parse()?)
    }

    #[test]
    fn labels_become_annotations() {
        let pairs = |pairs: &[(&str, &str)]| -> Pairs {
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
        };
        let node = pairs(&[("topology.kubernetes.io/zone", "z1"), ("rack", "r7"), ("secret", "s")]);
        for (args, expected) in [
            (
                r#"{"labels":["topology.kubernetes.io/zone","rack","missing"]}"#,
                pairs(&[("topology.kubernetes.io/zone", "z1"), ("rack", "r7")]),
            ),
            (
                r#"{"labels":["topology.kubernetes.io/zone","rack"],"prefix":"node.example.com"}"#,
                pairs(&[("node.example.com/zone", "z1"), ("node.example.com/rack", "r7")]),
            ),
        ] {
            assert_eq!(annotations(args).unwrap().of(&node), expected);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (args, expected) in [
            ("", "args: missing field `labels`"),
            (
                r#"{"labels":[]}"#,
                "args.labels is empty; expected a list such as [topology.kubernetes.io/zone]",
            ),
            (r#"{"labels":["a",7]}"#, "args.labels[1]: invalid type: integer `7`, expected a string"),
            (r#"{"lables":["a"]}"#, "args.lables: unknown field `lables`, expected `labels` or `prefix`"),
            (
                r#"{"labels":["a","a b"]}"#,
                "args.labels[1] \"a b\" is not a label key; expected a key such as topology",
            ),
            (r#"{"labels":["/zone"]}"#, "args.labels[0] \"/zone\" is not a label key"),
            (
                r#"{"labels":["a","a"]}"#,
                "args.labels[1] \"a\" becomes the annotation a, as \"a\" does; remove one of them",
            ),
            (r#"{"labels":["a"],"prefix":"A/"}"#, "args.prefix \"A/\" is not a DNS name"),
            (
                r#"{"labels":["a.io/zone","b.io/zone"],"prefix":"c.io"}"#,
                "args.labels[1] \"b.io/zone\" becomes the annotation c.io/zone, as \"a.io/zone\" does; remove",
            ),
        ] {
            let error = annotations(args).unwrap_err().to_string();
            assert!(error.contains(expected), "{args}: {error}");
        }
    }
}
