//! A case of the suite, and how it ends.

use futures_util::future::BoxFuture;

use tonic::Status;

use crate::{
    client::{printable, shown},
    declared::Verb,
    suite::Suite,
};

/// Why a case does not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The backend breaks the rule: what was sent and what came back.
    Failed(String),
    /// An answer breaks this rule, whatever the case is about.
    Broken(Breach),
    /// The case does not apply: which capability the backend does not declare.
    Skipped(String),
}

/// A rule that an answer breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// Such as `Filter`; empty if the backend as a whole breaks it.
    pub(crate) method: String,
    /// The number of the sentence in SPEC.md.
    pub(crate) rule: &'static str,
    pub(crate) text: String,
}

impl Stop {
    /// A failure of a method's answer, as a breach of this rule.
    pub(crate) fn of(self, method: &str, rule: &'static str) -> Self {
        match self {
            Self::Failed(text) => Self::Broken(Breach { method: method.to_owned(), rule, text }),
            other => other,
        }
    }

    /// What people read.
    pub(crate) fn text(self) -> String {
        match self {
            Self::Failed(text) | Self::Skipped(text) | Self::Broken(Breach { text, .. }) => text,
        }
    }

    /// The same failure, with what it came after.
    pub(crate) fn after(self, what: &str) -> Self {
        match self {
            Self::Failed(text) => Self::Failed(format!("{what}: {text}")),
            Self::Broken(breach) => {
                Self::Broken(Breach { text: format!("{what}: {}", breach.text), ..breach })
            }
            Self::Skipped(reason) => Self::Skipped(reason),
        }
    }

    /// What was asked is refused with this status.
    pub(crate) fn refused(what: &str, status: &Status) -> Self {
        Self::Failed(format!("{what}: {}", shown(status)))
    }

    /// The suite itself cannot go on.
    pub(crate) fn broken(text: impl Into<String>) -> Self {
        Self::Failed(format!("the suite could not ask: {}", text.into()))
    }
}

/// A case fails with this text.
pub(crate) fn failed<T>(text: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(text.into()))
}

/// A case does not apply for this reason.
pub(crate) fn skipped<T>(reason: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skipped(reason.into()))
}

/// How strict a rule is, in the sense of RFC 2119.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A backend that breaks it does not conform.
    Must,
    /// A backend that breaks it conforms, and its author should know.
    Should,
}

/// What a case asks the backend.
pub(crate) type Check = for<'a> fn(&'a Suite, Option<Verb>) -> BoxFuture<'a, Result<(), Stop>>;

/// One question to the backend, and the rules of SPEC.md that its answer must keep.
#[derive(Clone, Debug)]
pub struct Case {
    pub(crate) name: String,
    pub(crate) title: &'static str,
    pub(crate) rules: &'static [&'static str],
    pub(crate) level: Level,
    pub(crate) verb: Option<Verb>,
    pub(crate) check: Check,
}

impl Case {
    /// Such as `filter.evaluated`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What holds if the case passes.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// The numbers of the sentences in SPEC.md, such as `11.1`.
    pub fn rules(&self) -> &'static [&'static str] {
        self.rules
    }

    /// How strict these are.
    pub fn level(&self) -> Level {
        self.level
    }
}

/// The result of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The rule is kept.
    Passed,
    /// A [`Level::Must`] is broken.
    Failed(String),
    /// A [`Level::Should`] is broken.
    Warned(String),
    /// The backend does not declare what the case is about.
    Skipped(String),
}

impl Outcome {
    pub(crate) fn of(level: Level, ended: Result<(), Stop>) -> Self {
        match (ended, level) {
            (Ok(()), _) => Self::Passed,
            (Err(Stop::Skipped(reason)), _) => Self::Skipped(printable(&reason)),
            (Err(Stop::Broken(breach)), _) => Self::Failed(printable(&breach.text)),
            (Err(Stop::Failed(text)), Level::Must) => Self::Failed(printable(&text)),
            (Err(Stop::Failed(text)), Level::Should) => Self::Warned(printable(&text)),
        }
    }

    /// Whether a backend with this result does not conform; strictly, that is also one that breaks a rule of SHOULD.
    pub fn fails(&self, strict: bool) -> bool {
        matches!(self, Self::Failed(_)) || strict && matches!(self, Self::Warned(_))
    }
}

/// Cases, one a line: `name level [rules] title => function`, or `=> |suite| what the function would do`. A line that begins
/// with `for VERBS:` is the same case for each of these verbs, which the function gets; its name begins with that of the verb.
macro_rules! table {
    ($($(for $verbs:ident :)? $name:literal $level:ident $rules:tt $title:literal =>
        $($check:path)? $(|$suite:ident $(, $verb:ident)?| $body:expr)?;)*) => {{
        let mut all = Vec::new();
        $($crate::case::row!(
            all, $($verbs,)? ($name, $level, $rules, $title), $($check)? $(|$suite $(, $verb)?| $body)?
        );)*
        all
    }};
}

/// A line of [`table`].
macro_rules! row {
    ($all:ident, $about:tt, $check:path) => {
        $crate::case::row!($all, $about, |suite| $check(suite).await)
    };
    ($all:ident, $verbs:ident, $about:tt, $check:path) => {
        $crate::case::row!($all, $verbs, $about, |suite, verb| $check(suite, verb).await)
    };
    ($all:ident, ($name:literal, $level:ident, $rules:tt, $title:literal), |$suite:ident| $body:expr) => {
        $all.push($crate::case::Case {
            name: $name.to_owned(),
            title: $title,
            rules: &$rules,
            level: $crate::case::Level::$level,
            verb: None,
            check: |$suite, _| Box::pin(async move { $body }),
        })
    };
    (
        $all:ident, $verbs:ident, ($name:literal, $level:ident, $rules:tt, $title:literal),
        |$suite:ident, $verb:ident| $body:expr
    ) => {
        $all.extend($verbs.iter().map(|verb: &$crate::declared::Verb| $crate::case::Case {
            name: format!("{}.{}", verb.name(), $name),
            title: $title,
            rules: &$rules,
            level: $crate::case::Level::$level,
            verb: Some(*verb),
            check: |$suite, verb| {
                Box::pin(async move {
                    match verb {
                        Some($verb) => $body,
                        None => Err($crate::case::Stop::broken("the case has no verb")),
                    }
                })
            },
        }))
    };
}

pub(crate) use {row, table};
