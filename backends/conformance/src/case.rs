//! A case of the suite, and how it ends.

use conformance_report::{CaseInfo, Level, Outcome, printable};
use futures_util::future::BoxFuture;
use tonic::Status;

use crate::{answer::Breach, client::shown, declared::Verb, suite::Suite};

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

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<Breach> for Stop {
    fn from(breach: Breach) -> Self {
        Self::Broken(breach)
    }
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

/// What a case asks the backend.
pub(crate) type Check = for<'a> fn(&'a Suite, Option<Verb>) -> BoxFuture<'a, Result<(), Stop>>;

/// One question to the backend, and the rules of SPEC.md that its answer must keep.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name and rules.
    pub info: CaseInfo,
    pub(crate) verb: Option<Verb>,
    pub(crate) check: Check,
}

impl Case {
    /// Such as `filter.evaluated`.
    pub fn name(&self) -> &str {
        self.info.name()
    }
}

/// The result of a case of this level.
pub(crate) fn outcome(level: Level, ended: Result<(), Stop>) -> Outcome {
    match (ended, level) {
        (Ok(()), _) => Outcome::Passed,
        (Err(Stop::Skipped(reason)), _) => Outcome::Skipped(printable(&reason)),
        (Err(Stop::Broken(breach)), _) => Outcome::Failed(printable(&breach.text)),
        (Err(Stop::Failed(text)), Level::Must) => Outcome::Failed(printable(&text)),
        (Err(Stop::Failed(text)), Level::Should) => Outcome::Warned(printable(&text)),
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
            info: conformance_report::CaseInfo {
                name: $name.to_owned(),
                title: $title,
                rules: &$rules,
                level: conformance_report::Level::$level,
            },
            verb: None,
            check: |$suite, _| Box::pin(async move { $body }),
        })
    };
    (
        $all:ident, $verbs:ident, ($name:literal, $level:ident, $rules:tt, $title:literal),
        |$suite:ident, $verb:ident| $body:expr
    ) => {
        $all.extend($verbs.iter().map(|verb: &$crate::declared::Verb| $crate::case::Case {
            info: conformance_report::CaseInfo {
                name: format!("{}.{}", verb.name(), $name),
                title: $title,
                rules: &$rules,
                level: conformance_report::Level::$level,
            },
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
