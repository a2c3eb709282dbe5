//! The benchmark's policy: it refuses nodes by one label, and scores them by others. Its decisions do not depend on
//! its declaration, so declarations can be compared.

use std::{fmt, str::FromStr};

use extender_policy_sdk::{Info, Node, NodeKey, Pod, Policy, Reads, Scale, Verb, Verdict};

/// The policy's declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Declaration {
    /// A function of the pod's class and the node: answers may be cached.
    Pure,
    /// Each node on its own, called every time.
    Node,
    /// All nodes of a call: called after the policies before it.
    Set,
}

impl Declaration {
    fn verb(self) -> Verb {
        match self {
            Self::Pure => Verb::per_node().pure(),
            Self::Node => Verb::per_node(),
            Self::Set => Verb::whole_set(),
        }
    }
}

/// A label with a value, written `KEY=VALUE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    key: String,
    value: String,
}

/// The score of nodes with a label, written `KEY=VALUE:SCORE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preference {
    label: Label,
    score: i32,
}

/// A text that is neither a label nor a preference.
#[derive(Debug, thiserror::Error)]
#[error("`{text}` is not {form}")]
pub struct NotUnderstood {
    text: String,
    form: &'static str,
}

/// Whether the policy holds the gateway's table of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Table {
    /// Yes.
    On,
    /// Nodes come with each call.
    Off,
}

/// What the policy declares that it reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ReadsDeclared {
    /// The labels that it decides by, and nothing of pods.
    Labels,
    /// Everything but annotations.
    All,
}

/// The settings of a policy.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Its name.
    pub name: String,
    /// Its declaration.
    pub declaration: Declaration,
    /// What it declares that it reads.
    pub reads: ReadsDeclared,
    /// Whether it holds the gateway's nodes.
    pub table: Table,
    /// Nodes with this label are refused.
    pub refuse: Label,
    /// Scores of the labels that a node has add up.
    pub prefer: Vec<Preference>,
}

/// The policy.
#[derive(Debug)]
pub struct LabelPolicy {
    settings: Settings,
    reads: Reads,
    refuse: NodeKey,
    /// Those of the preferences, in their order.
    prefer: Vec<NodeKey>,
}

impl LabelPolicy {
    /// The policy with these settings.
    pub fn new(settings: Settings) -> Self {
        let mut reads = match settings.reads {
            ReadsDeclared::Labels => Reads::new(),
            ReadsDeclared::All => Reads::everything(),
        };
        let refuse = reads.node_label(settings.refuse.key.as_str());
        let prefer = settings.prefer.iter().map(|met| reads.node_label(met.label.key.as_str())).collect();
        Self { settings, reads, refuse, prefer }
    }
}

impl Policy for LabelPolicy {
    fn info(&self) -> Info {
        let Settings { name, declaration, table, .. } = &self.settings;
        let verb = declaration.verb().reads(&self.reads);
        let info = Info::new(name, env!("CARGO_PKG_VERSION"));
        let info = info.filters(verb.clone()).scores(verb, Scale::unbounded());
        match table {
            Table::On => info,
            Table::Off => info.without_node_table(),
        }
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        let refuse = &self.settings.refuse;
        if node.get(&self.refuse) == Some(&refuse.value) {
            return Verdict::reject(refuse.to_string());
        }
        Verdict::Accept
    }

    fn score(&self, _: &Pod<'_>, node: &Node<'_>) -> i32 {
        let preferences = self.settings.prefer.iter().zip(&self.prefer);
        let met = preferences.filter(|(preference, key)| node.get(key) == Some(&preference.label.value));
        met.map(|(preference, _)| preference.score).sum()
    }
}

impl fmt::Display for Label {
    /// The reason of a refusal, as the plain extender's rules give it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "label {} is {}", self.key, self.value)
    }
}

impl FromStr for Label {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        let (key, value) =
            text.split_once('=').ok_or_else(|| NotUnderstood { text: text.to_owned(), form: "KEY=VALUE" })?;
        Ok(Self { key: key.to_owned(), value: value.to_owned() })
    }
}

impl FromStr for Preference {
    type Err = NotUnderstood;

    fn from_str(text: &str) -> Result<Self, NotUnderstood> {
        let wrong = || NotUnderstood { text: text.to_owned(), form: "KEY=VALUE:SCORE" };
        let (label, score) = text.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Self { label: label.parse().map_err(|_| wrong())?, score: score.parse().map_err(|_| wrong())? })
    }
}
