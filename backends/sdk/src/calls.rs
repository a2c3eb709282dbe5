//! What is recorded of each call: a line in the log and the metrics, where they are turned on, and the span in which a policy
//! answers, so that its own lines name the call and the pod.

use std::{
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use extender_policy_api::v1beta1::{self as api, result::Outcome};
use tonic::{Code, Status, codegen::http::HeaderMap};
use tracing::Span;

use crate::{
    metrics::Metrics,
    request::{ChangeRequest, FilterRequest, NodeList, PreemptRequest, ScoreRequest},
};

/// Of each text from outside, more bytes than these are not logged. A namespace and a name have less.
const MOST_BYTES: usize = 512;

/// What is recorded of calls.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) log: bool,
    pub(crate) metrics: Option<Metrics>,
}

impl Calls {
    /// A call of this method begins.
    pub(crate) fn begin(&self, method: &'static str) -> Record {
        let is_recorded = self.log || self.metrics.is_some();
        Record(Mutex::new(is_recorded.then(|| Box::new(Recorded::new(self.clone(), method)))))
    }
}

/// The record of a call, which is complete when it is dropped; empty if nothing is recorded.
pub(crate) struct Record(Mutex<Option<Box<Recorded>>>);

struct Recorded {
    calls: Calls,
    begin: Instant,
    method: &'static str,
    call: String,
    pod: String,
    nodes: Option<u32>,
    rejected: Option<usize>,
    status: Status,
}

impl Record {
    /// The request, for this method.
    pub(crate) fn asked(&self, method: &'static str, about: About<'_>) {
        self.note(|recorded| {
            recorded.method = method;
            beginning(about.call).clone_into(&mut recorded.call);
            recorded.pod = about.pod();
            recorded.nodes = about.nodes;
        });
    }

    /// How many nodes the answer rejects.
    pub(crate) fn answered(&self, rejected: Option<usize>) {
        self.note(|recorded| recorded.rejected = rejected);
    }

    /// Only failures have a status among the headers; otherwise it follows the message.
    pub(crate) fn ended(self, headers: &HeaderMap) {
        self.note(|recorded| {
            recorded.status = Status::from_header_map(headers).unwrap_or_else(|| Status::ok(""));
        });
    }

    fn note(&self, note: impl FnOnce(&mut Recorded)) {
        // Nothing that can panic runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).as_deref_mut().map(note);
    }
}

impl Recorded {
    fn new(calls: Calls, method: &'static str) -> Self {
        let status = Status::cancelled("the caller gave up, or no time was left");
        let (call, pod) = (String::new(), String::new());
        Self { calls, begin: Instant::now(), method, call, pod, nodes: None, rejected: None, status }
    }

    fn line(&self, taken: Duration) -> String {
        let text = |name: &str, text: &str| {
            if text.is_empty() { String::new() } else { format!(" {name}={text:?}") }
        };
        let number =
            |name: &str, number: Option<usize>| number.map(|it| format!(" {name}={it}")).unwrap_or_default();
        let nodes = self.nodes.and_then(|nodes| usize::try_from(nodes).ok());
        let failure = match self.status.code() {
            Code::Ok => String::new(),
            code => format!(" code={}{}", code_name(code), text("message", beginning(self.status.message()))),
        };
        let verb = verb_name(self.method);
        let (call, pod) = (text("call", &self.call), text("pod", &self.pod));
        let (nodes, rejected) = (number("nodes", nodes), number("rejected", self.rejected));
        format!("{verb}{call}{pod}{nodes}{rejected}{failure} ms={:.3}", taken.as_secs_f64() * 1_000.0)
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let taken = self.begin.elapsed();
        if self.calls.log {
            log(&self.line(taken));
        }
        if let Some(metrics) = &self.calls.metrics {
            metrics.count(verb_name(self.method), code_name(self.status.code()), taken);
        }
    }
}

/// To the subscriber of `tracing`; a program without one has standard error.
fn log(line: &str) {
    if tracing::dispatcher::has_been_set() {
        tracing::info!("{line}");
    } else {
        drop(writeln!(io::stderr(), "{line}"));
    }
}

/// The verb in labels and lines, such as `before_filter`.
fn verb_name(method: &str) -> String {
    match method {
        "Report" => "observe".to_owned(),
        method => words(method).to_lowercase(),
    }
}

/// As gRPC writes it, such as `NOT_FOUND`.
fn code_name(code: Code) -> String {
    words(&format!("{code:?}")).to_uppercase()
}

fn words(name: &str) -> String {
    let mut words = String::new();
    for (at, letter) in name.char_indices() {
        if at > 0 && letter.is_uppercase() {
            words.push('_');
        }
        words.push(letter);
    }
    words
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(MOST_BYTES)]
}

/// What a request is about, as far as it is sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    call: &'a str,
    namespace: &'a str,
    name: &'a str,
    pub(crate) nodes: Option<u32>,
}

impl<'a> About<'a> {
    fn of(call: Option<&'a api::Call>, pod: Option<&'a api::Pod>, nodes: Option<&NodeList>) -> Self {
        let facts = pod.and_then(|pod| pod.facts.as_ref());
        let identity = pod.and_then(|pod| pod.identity.as_ref());
        Self {
            call: call.map_or("", |call| &call.id),
            namespace: facts.map_or("", |facts| &facts.namespace),
            name: identity.map_or("", |identity| &identity.name),
            nodes: nodes.map(|nodes| nodes.count),
        }
    }

    /// Namespace and name.
    fn pod(self) -> String {
        let parts = [self.namespace, self.name].map(beginning);
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
    }

    /// The span in which the policy answers. Nothing is written for it unless the program's subscriber is interested.
    pub(crate) fn span(self) -> Span {
        tracing::info_span!("call", id = beginning(self.call), pod = self.pod())
    }
}

/// A request of which is recorded what it is about.
pub(crate) trait Recordable {
    fn about(&self) -> About<'_> {
        About::default()
    }
}

macro_rules! about_nodes {
    ($($request:ident),*) => {$(
        impl Recordable for $request {
            fn about(&self) -> About<'_> {
                About::of(self.call.as_ref(), self.pod.as_ref(), self.nodes.as_ref())
            }
        }
    )*};
}
about_nodes!(FilterRequest, ScoreRequest, PreemptRequest, ChangeRequest);

impl Recordable for api::BindRequest {
    fn about(&self) -> About<'_> {
        let of_call = About::of(self.call.as_ref(), None, None);
        About { namespace: &self.namespace, name: &self.name, ..of_call }
    }
}

impl Recordable for api::GetInfoRequest {}

impl Recordable for api::ReportRequest {}

/// An answer, of which is recorded how many of the nodes it rejects.
pub(crate) trait Rejecting {
    fn rejected(&self, _nodes: Option<u32>) -> Option<usize> {
        None
    }
}

impl Rejecting for api::FilterResponse {
    fn rejected(&self, _: Option<u32>) -> Option<usize> {
        is_evaluated(self.result.as_ref()).then(|| self.rejections.iter().map(|it| it.positions.len()).sum())
    }
}

impl Rejecting for api::PreemptResponse {
    fn rejected(&self, nodes: Option<u32>) -> Option<usize> {
        let nodes = usize::try_from(nodes?).ok()?;
        is_evaluated(self.result.as_ref()).then(|| nodes.saturating_sub(self.kept.len()))
    }
}

fn is_evaluated(result: Option<&api::Result>) -> bool {
    matches!(result.and_then(|result| result.outcome), Some(Outcome::Evaluated(_)))
}

impl Rejecting for api::GetInfoResponse {}

impl Rejecting for api::ScoreResponse {}

impl Rejecting for api::BindResponse {}

impl Rejecting for api::ChangeResponse {}

impl Rejecting for api::ReportResponse {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verbs_and_codes_have_the_names_of_the_contract() {
        for (method, verb) in [
            ("Filter", "filter"),
            ("BeforeFilterNodes", "before_filter_nodes"),
            ("GetInfo", "get_info"),
            ("Report", "observe"),
        ] {
            assert_eq!(verb_name(method), verb);
        }
        for (code, name) in [(Code::Ok, "OK"), (Code::FailedPrecondition, "FAILED_PRECONDITION")] {
            assert_eq!(code_name(code), name);
        }
    }

    #[test]
    fn a_line_has_what_is_known_and_is_one_line() {
        let recorded = |about: About<'_>, rejected, status| {
            let record = Calls { log: true, metrics: None }.begin("Filter");
            record.asked("Filter", about);
            record.answered(rejected);
            record.note(|recorded| recorded.status = status);
            let recorded = record.0.lock().unwrap();
            recorded.as_deref().unwrap().line(Duration::from_micros(1_250))
        };
        let about = About { call: "c-1", namespace: "shop", name: "web-0", nodes: Some(5) };
        let long = "ä".repeat(1_000);
        for (about, rejected, status, expected) in [
            (
                about,
                Some(2),
                Status::ok(""),
                r#"filter call="c-1" pod="shop/web-0" nodes=5 rejected=2 ms=1.250"#,
            ),
            (
                About { name: "", ..about },
                None,
                Status::ok(""),
                r#"filter call="c-1" pod="shop" nodes=5 ms=1.250"#,
            ),
            (
                About { call: "a\nb", name: "", namespace: "", nodes: None },
                None,
                Status::internal("no\n"),
                r#"filter call="a\nb" code=INTERNAL message="no\n" ms=1.250"#,
            ),
            (
                About { call: &long, ..About::default() },
                None,
                Status::ok(""),
                &format!("filter call=\"{}\" ms=1.250", "ä".repeat(256)),
            ),
        ] {
            assert_eq!(recorded(about, rejected, status), expected);
        }
        assert!(Calls::default().begin("Filter").0.lock().unwrap().is_none());
    }
}
