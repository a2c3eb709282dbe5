//! The fields of `backends`.

use std::path::Path;
use std::time::Duration;

use super::super::cursor::{Cursor, Fields, Read, Section};
use super::super::mistake::echo;
use super::super::yaml::Value;
use super::super::{
    AddedVictims, Backend, BackendName, BackendTls, BackendUrl, BindFailurePolicy, BindSettings,
    DurationText, FailurePolicy, FilterSettings, Mode, Normalize, PreemptSettings, Preemption, PureAnswers,
    Scheme, ScoreSettings, Timeouts, Weight, args,
};
use super::value::{choice, duration, field_or};
use super::{interest, tls};

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_BIND_TIMEOUT: Duration = Duration::from_secs(5);

const BACKENDS: &str =
    "a list with at least one backend such as {name: rack-drain, url: http://rack-drain:9000, filter: {}}";
const NAME: &str = "1 to 63 lower case letters, digits and -, with a letter or digit at both ends";
const URL: &str = "http://HOST:PORT or https://HOST:PORT such as http://rack-drain.policies.svc:9000";
const WEIGHT: &str = "a whole number from 1 to 1000000";

const BACKEND: Fields = Fields {
    right: "a mapping with name, url and filter, score, preempt or bind",
    known: &[
        "name",
        "url",
        "tls",
        "mode",
        "pureAnswers",
        "args",
        "match",
        "filter",
        "score",
        "preempt",
        "bind",
    ],
    unsupported: &[],
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

const PREEMPT: Fields = Fields {
    right: "a mapping such as {timeout: 200ms}, {} for the defaults",
    known: &["timeout", "failurePolicy", "addedVictims"],
    unsupported: &[],
};
const BIND: Fields = Fields {
    right: "a mapping such as {timeout: 5s}, {} for the defaults",
    known: &["timeout", "failurePolicy"],
    unsupported: &[],
};

/// The mappings of a backend, each with the path to it.
#[cfg(test)]
pub(super) fn mappings() -> [(&'static str, &'static Fields); 10] {
    [
        ("", &BACKEND),
        ("tls.", &tls::BACKEND),
        ("match.", &interest::MATCH),
        ("match.managedResources.", &interest::RESOURCE),
        ("match.podSelector.", &interest::SELECTOR),
        ("match.podSelector.matchExpressions.", &interest::EXPRESSION),
        ("filter.", &FILTER),
        ("score.", &SCORE),
        ("preempt.", &PREEMPT),
        ("bind.", &BIND),
    ]
}

/// All backends. `timeouts` are those of calls, `None` if they have a mistake of their own.
pub(super) fn all(root: &Section<'_>, timeouts: Option<Timeouts>, folder: &Path) -> Option<Vec<Backend>> {
    let items = root.required("backends", BACKENDS)?.items(BACKENDS)?;
    if items.is_empty() {
        root.mistake_of("backends", "is an empty list", BACKENDS);
        return None;
    }
    // A limit that is not known limits nothing.
    let timeouts = timeouts.unwrap_or(Timeouts { decision: Duration::MAX, bind: Duration::MAX });
    let mut names = Names::default();
    let backends: Vec<Option<Backend>> =
        items.into_iter().map(|item| backend(item, (timeouts, folder), &mut names)).collect();
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

fn backend(item: Cursor<'_>, (timeouts, folder): (Timeouts, &Path), names: &mut Names) -> Option<Backend> {
    let path = item.path().to_owned();
    let fields = item.section(&BACKEND)?;
    let name = fields.required("name", NAME).and_then(|field| names.name(&field, &path));
    let url = fields.required("url", URL).and_then(|field| field.parsed(URL, BackendUrl::new));
    let tls = field_or(&fields, "tls", None, |field| tls::backend(field.clone(), folder).map(Some));
    let tls = tls_as_the_url_says(&fields, url.as_ref(), tls);
    let mode = field_or(&fields, "mode", Mode::Enforce, choice);
    let pure_answers = field_or(&fields, "pureAnswers", PureAnswers::Remembered, choice);
    let args = field_or(&fields, "args", None, |field| args::json_object(field).map(Some));
    let interest = field_or(&fields, "match", Default::default(), |field| interest::interest(field.clone()));
    let verbs = verbs(&fields, timeouts);
    let (interest, ignored_by_scheduler) = interest?;
    let Verbs { filter, score, preempt, bind } = verbs?;
    Some(Backend {
        name: name?,
        url: url?,
        tls: tls?,
        mode: mode?,
        pure_answers: pure_answers?,
        args: args?,
        interest,
        ignored_by_scheduler,
        filter,
        score,
        preempt,
        bind,
    })
}

/// How a backend is asked, by verb.
struct Verbs {
    filter: Option<FilterSettings>,
    score: Option<ScoreSettings>,
    preempt: Option<PreemptSettings>,
    bind: Option<BindSettings>,
}

fn verbs(fields: &Section<'_>, Timeouts { decision, bind: longest }: Timeouts) -> Option<Verbs> {
    let filter = field_or(fields, "filter", None, |field| filter(field.clone(), decision).map(Some));
    let score = field_or(fields, "score", None, |field| score(field.clone(), decision).map(Some));
    let preempt = field_or(fields, "preempt", None, |field| preempt(field.clone(), decision).map(Some));
    let bind = field_or(fields, "bind", None, |field| bind(field.clone(), longest).map(Some));
    if ["filter", "score", "preempt", "bind"].iter().all(|verb| fields.optional(verb).is_none()) {
        fields.mistake("would never be asked", "add `filter: {}`, `score: {}`, `preempt: {}` or `bind: {}`");
    }
    Some(Verbs { filter: filter?, score: score?, preempt: preempt?, bind: bind? })
}

/// `tls` belongs to `https`, and `https` needs it.
fn tls_as_the_url_says(
    fields: &Section<'_>,
    url: Option<&BackendUrl>,
    tls: Read<Option<BackendTls>>,
) -> Read<Option<BackendTls>> {
    match (url?.scheme(), fields.optional("tls").is_some()) {
        (Scheme::Http, true) => {
            fields.mistake_of("tls", "does not go with an http URL", "an https URL, or leave it out");
            None
        }
        (Scheme::Https, false) => {
            fields.mistake_of("tls", "is missing", "with an https URL, {caFile: FILE}");
            None
        }
        _ => tls,
    }
}

fn filter(field: Cursor<'_>, decision: Duration) -> Option<FilterSettings> {
    let fields = field.section(&FILTER)?;
    let timeout = timeout(&fields, DEFAULT_TIMEOUT, (decision, "decision"));
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
    let timeout = timeout(&fields, DEFAULT_TIMEOUT, (decision, "decision"));
    let weight = field_or(&fields, "weight", Weight::ONE, weight);
    let normalize = field_or(&fields, "normalize", None, |field| choice(field).map(Some));
    let reversed = field_or(&fields, "reversed", None, |field| field.boolean().map(Some));
    if (normalize, reversed) == (Some(Some(Normalize::None)), Some(Some(true))) {
        fields.mistake_of("reversed", "does not go with normalize: None", "another normalize, or false");
    }
    ignored(&fields);
    Some(ScoreSettings { timeout: timeout?, weight: weight?, normalize: normalize?, reversed: reversed? })
}

fn preempt(field: Cursor<'_>, decision: Duration) -> Option<PreemptSettings> {
    let fields = field.section(&PREEMPT)?;
    let timeout = timeout(&fields, DEFAULT_TIMEOUT, (decision, "decision"));
    let failure_policy = field_or(&fields, "failurePolicy", FailurePolicy::Fail, choice);
    let added_victims = field_or(&fields, "addedVictims", AddedVictims::Refused, choice);
    Some(PreemptSettings {
        timeout: timeout?,
        failure_policy: failure_policy?,
        added_victims: added_victims?,
    })
}

fn bind(field: Cursor<'_>, longest: Duration) -> Option<BindSettings> {
    let fields = field.section(&BIND)?;
    let timeout = timeout(&fields, DEFAULT_BIND_TIMEOUT, (longest, "bind"));
    let failure_policy = field_or(&fields, "failurePolicy", BindFailurePolicy::Fail, choice);
    Some(BindSettings { timeout: timeout?, failure_policy: failure_policy? })
}

/// `score.failurePolicy` may only say what is the case anyway.
fn ignored(fields: &Section<'_>) {
    let Some(policy) = fields.optional("failurePolicy") else { return };
    policy.parsed("Ignore, or leave it out: a failed score never fails the call", |text| match text {
        "Ignore" => Ok(()),
        _ => Err(format!("{} is not known", echo(text))),
    });
}

/// A verb's timeout. The default gives way to a shorter call; what the file says does not.
fn timeout(fields: &Section<'_>, default: Duration, (longest, call): (Duration, &str)) -> Option<Duration> {
    field_or(fields, "timeout", default.min(longest), |field| {
        let timeout = duration(field)?;
        if timeout <= longest {
            return Some(timeout);
        }
        let longest = DurationText(longest);
        let wrong = format!("{} is longer than timeouts.{call}, {longest}", DurationText(timeout));
        field.mistake(wrong, &format!("at most {longest}, or a longer timeouts.{call}"));
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
