//! A case, the configuration that it shares with others, and how it ends.

use std::{fmt, sync::Arc};

use conformance_report::{CaseInfo, Level};
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::stage::Stage;

/// Why a case does not pass.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// The gateway breaks the rule.
    Failed(String),
    /// The case does not apply to it.
    Skipped(String),
}

impl From<String> for Stop {
    fn from(text: String) -> Self {
        Self::Failed(text)
    }
}

impl From<&str> for Stop {
    fn from(text: &str) -> Self {
        Self::Failed(text.to_owned())
    }
}

/// The end of a check.
pub(crate) type Check<T = ()> = Result<T, Stop>;

/// Fails unless both are equal: what came, and what the rule requires.
pub(crate) fn equal<A: PartialEq<B> + fmt::Debug, B: fmt::Debug>(
    what: &str,
    came: &A,
    expected: &B,
) -> Check {
    if came == expected {
        return Ok(());
    }
    Err(format!("{what}: {came:?}; expected {expected:?}").into())
}

/// Fails with this text unless the condition holds.
pub(crate) fn ensure(holds: bool, text: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(Stop::Failed(text())) }
}

type Run = Arc<dyn Fn(Stage) -> BoxFuture<'static, Check> + Send + Sync>;

/// A case.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) info: CaseInfo,
    pub(crate) run: Run,
}

/// A case of this name with these rules; the title is what holds if it passes.
pub(crate) fn case<F: Future<Output = Check> + Send + 'static>(
    name: impl Into<String>,
    rules: &'static [&'static str],
    title: &'static str,
    run: impl Fn(Stage) -> F + Send + Sync + 'static,
) -> Case {
    let info = CaseInfo { name: name.into(), title, rules, level: Level::Must };
    Case { info, run: Arc::new(move |stage| Box::pin(run(stage))) }
}

/// Where the gateway has its nodes from.
#[derive(Clone, Debug)]
pub(crate) enum Nodes {
    /// The calls alone.
    Calls,
    /// A file with these objects, which cases replace.
    File(Vec<Value>),
}

/// A backend as the operator configures it, and what it answers to the handshake.
#[derive(Clone, Debug)]
pub(crate) struct Declared {
    pub(crate) name: &'static str,
    /// Its fields in the launcher's document.
    pub(crate) settings: Value,
    /// The encoded answer.
    pub(crate) info: Vec<u8>,
    /// The package of the API that it implements.
    pub(crate) package: &'static str,
}

/// Cases that one gateway is started for.
pub(crate) struct Group {
    pub(crate) nodes: Nodes,
    /// Whether the gateway has an apiserver to bind at.
    pub(crate) binds: bool,
    pub(crate) backends: Vec<Declared>,
    pub(crate) cases: Vec<Case>,
}

/// Rows, one or two lines each: `"name" [rules] "title" => values;`, each given to a function or a constructor of this name.
macro_rules! table {
    ($make:ident: $($name:literal $rules:tt $title:literal => $($value:expr),+;)*) => {
        vec![$($make($name, &$rules, $title, $($value),+)),*]
    };
}

pub(crate) use table;
