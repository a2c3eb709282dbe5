//! What differs between two configurations, setting by setting.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use serde_json::Value;

use super::Config;

/// The most characters of a value.
const LONGEST: usize = 60;
/// What stands for a change of which no setting is shown, such as that of a secret in `args`.
pub const NOT_SHOWN: &str = "a setting that is not shown";
/// What stands for a setting that a configuration does not have.
const ABSENT: &str = "unset";

/// Each setting by its path, in which backends have their names. Of `args` the value is a hash.
pub type Settings = BTreeMap<String, String>;

/// What replicas show of their configuration, to be compared. Values of `args` that may be secrets have no part in it, not even in a
/// hash, by which they could be guessed.
#[derive(Debug, Clone, Default)]
pub struct ConfigSummary {
    /// Equal for equal settings, within one version of the program.
    pub digest: String,
    /// The settings.
    pub settings: Settings,
}

impl Config {
    /// What is shown of it. A configuration may have tens of thousands of values: do not make it on a thread of calls.
    pub fn summary(&self) -> ConfigSummary {
        let (shown, _) = self.clone().without_secrets();
        let yaml = shown.effective_yaml();
        let mut settings = Settings::new();
        // The program has written it.
        if let Ok(value) = serde_saphyr::from_str::<Value>(&yaml) {
            flatten(String::new(), &value, &mut settings);
        }
        ConfigSummary { digest: hash(&yaml), settings }
    }
}

/// What has changed between these settings, such as `backends.spread.score.weight: 2 → 5`; at most this many, and the
/// number of further ones.
pub fn changes(before: &Settings, now: &Settings, most: usize) -> Vec<String> {
    let paths: BTreeSet<_> = before.keys().chain(now.keys()).collect();
    let value = |settings: &Settings, path: &str| {
        settings.get(path).map_or_else(|| ABSENT.to_owned(), |value| value.chars().take(LONGEST).collect())
    };
    let differing = paths.into_iter().filter(|path| before.get(*path) != now.get(*path));
    let mut changes: Vec<String> = differing
        .map(|path| match (before.get(path), now.get(path)) {
            (Some(_), Some(_)) if is_secret(path) => format!("{path} has changed"),
            _ => format!("{path}: {} → {}", value(before, path), value(now, path)),
        })
        .collect();
    let further = changes.len().saturating_sub(most);
    if further > 0 {
        changes.truncate(most);
        changes.push(format!("{further} more"));
    }
    changes
}

/// Whether the value of a setting may be a secret of a policy.
fn is_secret(path: &str) -> bool {
    path.split('.').nth(2) == Some("args") && path.starts_with("backends.")
}

fn flatten(path: String, value: &Value, settings: &mut Settings) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(_) if is_secret(&path) => {
            settings.insert(path, hash(&value.to_string()));
        }
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(below(key), value, settings)),
        Value::Array(entries) if path == "backends" => {
            for entry in entries {
                let name = entry["name"].as_str().unwrap_or_default();
                flatten(below(name), entry, settings);
            }
            let order: Vec<_> = entries.iter().filter_map(|entry| entry["name"].as_str()).collect();
            settings.insert("order of backends".to_owned(), order.join(", "));
        }
        Value::String(text) => drop(settings.insert(path, text.clone())),
        value => drop(settings.insert(path, value.to_string())),
    }
}

fn hash(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::config;

    fn of(backends: &str) -> Settings {
        config(backends).summary().settings
    }

    #[test]
    fn what_has_changed_is_said_setting_by_setting() {
        let before = of(
            "- {name: spread, url: 'http://a:1', args: {token: s3cret, most: 1}, filter: {}, score: {weight: 2}}\n",
        );
        let now = of("- {name: zones, url: 'http://b:1', mode: Shadow, filter: {}}\n\
             - {name: spread, url: 'http://a:1', args: {token: two, most: 2}, filter: {}, score: {weight: 5}}\n");
        let changes = changes(&before, &now, 100);
        for expected in [
            "backends.spread.args has changed",
            "backends.spread.score.weight: 2 → 5",
            "backends.zones.mode: unset → Shadow",
            "order of backends: spread → zones, spread",
        ] {
            assert!(changes.iter().any(|change| change == expected), "{expected}: {changes:#?}");
        }
        assert!(changes.iter().all(|change| !change.contains("backends.spread.url")), "{changes:#?}");
        let summary = |args: &str| {
            let config =
                config(&format!("- {{name: spread, url: 'http://a:1', args: {args}, filter: {{}}}}\n"));
            let ConfigSummary { digest, settings } = config.summary();
            (digest, settings)
        };
        let shown = summary("{token: s3cret, most: 1}");
        assert_eq!(shown, summary("{token: guess, most: 1}"), "nothing tells when a secret was guessed");
        let other = summary("{token: s3cret, most: 2}");
        assert!(shown.0 != other.0 && shown.1 != other.1, "other args are compared");
        let [a, b] = ["a", "b"].map(|name| format!("- {{name: {name}, url: 'http://a:1', score: {{}}}}\n"));
        let ignored = format!("{a}{}", b.replace("score", "filter"));
        let first = format!("{}{a}", b.replace("score", "filter"));
        let digest = |backends: &str| config(backends).summary().digest;
        assert_eq!(digest(&ignored), digest(&first), "an order in the file that has no effect");
        assert_ne!(digest(&format!("{a}{b}")), digest(&format!("{b}{a}")));
    }

    #[test]
    fn many_changes_are_counted() {
        let before = of("- {name: a, url: 'http://a:1', filter: {}}\n");
        let now = of("- {name: b, url: 'http://a:1', filter: {}}\n");
        let changes = changes(&before, &now, 3);
        assert_eq!(changes.len(), 4);
        assert!(changes[3].ends_with(" more"), "{changes:?}");
    }
}
