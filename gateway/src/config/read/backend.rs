//! The fields of `backends`.

use std::time::Duration;

use super::super::cursor::{Cursor, Fields, Section};
use super::super::mistake::echo;
use super::super::yaml::Value;
use super::super::{
    Backend, BackendName, BackendUrl, DurationText, FailurePolicy, FilterSettings, Normalize, Preemption,
    ScoreSettings, Weight, args,
};
use super::LEAVE_OUT;
use super::value::{choice, duration, field_or};

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);

const BACKENDS: &str =
    "a list with at least one backend such as {name: rack-drain, url: http://rack-drain:9000, filter: {}}";
const NAME: &str = "1 to 63 lower case letters, digits and -, with a letter or digit at both ends";
const URL: &str = "http://HOST:PORT such as http://rack-drain.policies.svc:9000";
const WEIGHT: &str = "a whole number from 1 to 1000000";

const BACKEND: Fields = Fields {
    right: "a mapping with name, url and filter or score",
    known: &["name", "url", "args", "mode", "filter", "score"],
    unsupported: &[
        ("tls", "leave it out: backends are reached without TLS"),
        ("match", "leave it out: every backend is asked about every pod"),
        ("preempt", LEAVE_OUT),
        ("bind", LEAVE_OUT),
    ],
};
const FILTER: Fields = Fields {
    right: "a mapping such as {timeout: 200ms}, {} for the defaults",
    known: &["timeout", "failurePolicy", "preemptionMayHelp"],
    unsupported: &[],
};
const SCORE: Fields = Fields {
    right: "a mapping such as {weight: 2}, {} for the defaults",
    known: &["timeout", "weight", "normalize", "reversed", "failurePolicy"],
    unsupported: &[],
};

/// All backends. `decision` is the decision's timeout, `None` if that has a mistake of its own.
pub(super) fn all(root: &Section<'_>, decision: Option<Duration>) -> Option<Vec<Backend>> {
    let items = root.required("backends", BACKENDS)?.items(BACKENDS)?;
    if items.is_empty() {
        root.mistake_of("backends", "is an empty list", BACKENDS);
        return None;
    }
    // A limit that is not known limits nothing.
    let decision = decision.unwrap_or(Duration::MAX);
    let mut names = Names::default();
    let backends: Vec<Option<Backend>> =
        items.into_iter().map(|item| backend(item, decision, &mut names)).collect();
    backends.into_iter().collect()
}

/// The names so far, each with the path of its backend.
#[derive(Default)]
struct Names(Vec<(BackendName, String)>);

impl Names {
    /// A name that no earlier backend has.
    fn name(&mut self, field: &Cursor<'_>, backend: &str) -> Option<BackendName> {
        let name = field.parsed(NAME, BackendName::new)?;
        if let Some((_, first)) = self.0.iter().find(|(earlier, _)| *earlier == name) {
            field.mistake(format!("{:?} is already the name of {first}", name.as_str()), "a name of its own");
            return None;
        }
        self.0.push((name.clone(), backend.to_owned()));
        Some(name)
    }
}

fn backend(item: Cursor<'_>, decision: Duration, names: &mut Names) -> Option<Backend> {
    let path = item.path().to_owned();
    let fields = item.section(&BACKEND)?;
    let name = fields.required("name", NAME).and_then(|field| names.name(&field, &path));
    let url = fields.required("url", URL).and_then(|field| field.parsed(URL, BackendUrl::new));
    let args = field_or(&fields, "args", None, |field| args::json_object(field).map(Some));
    enforced(&fields);
    let filter = field_or(&fields, "filter", None, |field| filter(field.clone(), decision).map(Some));
    let score = field_or(&fields, "score", None, |field| score(field.clone(), decision).map(Some));
    asked_at_all(&fields);
    Some(Backend { name: name?, url: url?, args: args?, filter: filter?, score: score? })
}

/// `mode` may only say what is the case anyway.
fn enforced(fields: &Section<'_>) {
    let Some(mode) = fields.optional("mode") else { return };
    mode.parsed("Enforce, or leave it out", |text| match text {
        "Enforce" => Ok(()),
        "Shadow" | "Disabled" => Err(format!("{text} is not supported by this version")),
        _ => Err(format!("{} is not known", echo(text))),
    });
}

fn asked_at_all(fields: &Section<'_>) {
    if fields.optional("filter").is_none() && fields.optional("score").is_none() {
        fields.mistake("would never be asked", "add `filter: {}` or `score: {}`");
    }
}

fn filter(field: Cursor<'_>, decision: Duration) -> Option<FilterSettings> {
    let fields = field.section(&FILTER)?;
    let timeout = timeout(&fields, decision);
    let failure_policy = field_or(&fields, "failurePolicy", FailurePolicy::Fail, choice);
    let preemption_may_help = field_or(&fields, "preemptionMayHelp", Preemption::Ignored, choice);
    Some(FilterSettings {
        timeout: timeout?,
        failure_policy: failure_policy?,
        preemption_may_help: preemption_may_help?,
    })
}

fn score(field: Cursor<'_>, decision: Duration) -> Option<ScoreSettings> {
    let fields = field.section(&SCORE)?;
    let timeout = timeout(&fields, decision);
    let weight = field_or(&fields, "weight", Weight::ONE, weight);
    let normalize = field_or(&fields, "normalize", None, |field| choice(field).map(Some));
    let reversed = field_or(&fields, "reversed", None, |field| field.boolean().map(Some));
    if (normalize, reversed) == (Some(Some(Normalize::None)), Some(Some(true))) {
        fields.mistake_of("reversed", "does not go with normalize: None", "another normalize, or false");
    }
    ignored(&fields);
    Some(ScoreSettings { timeout: timeout?, weight: weight?, normalize: normalize?, reversed: reversed? })
}

/// `score.failurePolicy` may only say what is the case anyway.
fn ignored(fields: &Section<'_>) {
    let Some(policy) = fields.optional("failurePolicy") else { return };
    policy.parsed("Ignore, or leave it out: a failed score never fails the call", |text| match text {
        "Ignore" => Ok(()),
        _ => Err(format!("{} is not supported by this version", echo(text))),
    });
}

/// A verb's timeout. The default gives way to a shorter decision; what the file says does not.
fn timeout(fields: &Section<'_>, decision: Duration) -> Option<Duration> {
    field_or(fields, "timeout", DEFAULT_TIMEOUT.min(decision), |field| {
        let timeout = duration(field)?;
        if timeout <= decision {
            return Some(timeout);
        }
        let decision = DurationText(decision);
        let wrong = format!("{} is longer than timeouts.decision, {decision}", DurationText(timeout));
        field.mistake(wrong, &format!("at most {decision}, or a longer timeouts.decision"));
        None
    })
}

fn weight(field: &Cursor<'_>) -> Option<Weight> {
    match field.value() {
        Value::Integer(number) => {
            let weight = Weight::new(*number).ok_or_else(|| format!("{number} is out of range"));
            field.accepted(weight, WEIGHT)
        }
        Value::Fraction(number) => {
            field.mistake(format!("{number:?} is not a whole number"), WEIGHT);
            None
        }
        _ => {
            field.wrong_kind(WEIGHT);
            None
        }
    }
}
