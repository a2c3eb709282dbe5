//! One backend's settings: its address, its verbs and how much its answers count.

use std::num::NonZeroU32;
use std::time::Duration;
use std::{collections::HashMap, fmt};

use bytes::Bytes;
use extender_config::{Cursor, Remedy, Section, Value, echo, names};
pub use extender_gateway_core::{FailurePolicy, filter::Preemption};
use extender_gateway_core::{PerPolicyVerb, PolicyVerb};
use http::uri::Scheme;

use super::setting::{Choice, Setting, Yaml, choices, scalar, settings, write_scalar};
use super::values::{json_object, write_json};
use super::{BackendTls, BackendUrl, CanarySettings, Match, RejectShareSettings, effective_order};

pub(super) const NAME: &str = "1 to 63 lower case letters, digits and -, with a letter or digit at both ends";
const URL: &str = "http://HOST:PORT or https://HOST:PORT such as http://rack-drain.policies.svc:9000";
const DEFAULT_TIMEOUT: Duration = Duration::from_millis(200);
const DEFAULT_BIND_TIMEOUT: Duration = Duration::from_secs(5);

settings! {
    /// A policy backend. It is called for the verbs whose settings are present, at least one.
    #[derive(Clone, Debug, PartialEq)]
    pub struct BackendSettings: "a mapping with name, url and a verb such as filter or score", check check_backend => BackendParts;
    /// The name in reasons, metrics and logs: 1 to 63 lower case letters, digits and `-`, with a letter or digit at both ends; unique
    /// among the backends.
    name "name": BackendName, required(NAME);
    /// `http://HOST:PORT` or `https://HOST:PORT`, without a path. The host is a DNS name, an IPv4 address, or an IPv6 address in
    /// brackets. The connection is HTTP/2, with `https` over TLS.
    url "url": BackendUrl, required(URL);
    /// Required with an `https` URL and not allowed otherwise.
    tls "tls": BackendTls, hidden("none");
    /// `Enforce`: its answers count. `Shadow`: it is called for filter, score and preempt in the background, except for a verb that it
    /// declares to have side effects; its answers are counted (`extender_gateway_backend_shadow_answers_total`) and never used. It is
    /// not called for bind, and its [hooks](hooks.md) do not run. `Disabled`: it is neither called nor connected to.
    mode "mode": Mode, default(Mode::Enforce);
    /// `canary: {percent: 10}`: the answers of the backend count for a share of the pods. See [rolling out a
    /// policy](#rolling-out-a-policy). Only with `mode: Enforce`.
    canary "canary": CanarySettings, hidden("all pods");
    /// `maxRejectShare: {share: 0.9}`: a limit for what its filter rejects. See [rolling out a policy](#rolling-out-a-policy).
    max_reject_share "maxRejectShare": RejectShareSettings, hidden("no limit");
    /// How answers of pure verbs are used. `Remembered`: they are cached for all pods and nodes for which the backend gets the same
    /// data, as long as its revision stays; one call in a thousand is sent anyway, and a difference disables the cache.
    /// `AskedEachTime`: the backend is called for each pod.
    pure_answers "pureAnswers": PureAnswers, default(PureAnswers::Remembered);
    /// Any mapping. The backend gets it as one JSON object, with sorted keys, in the handshake and with every call. The backend defines
    /// its content.
    args "args" as (json_object, write_json, OBJECT): Bytes, hidden("none");
    /// The pods for which the backend is called, see [match](#match). `{}`: every pod.
    matches "match": Match, default(Match::default());
    /// Calls the backend to filter nodes. `{}` for the defaults.
    filter "filter": FilterSettings, hidden("not called");
    /// Calls the backend to score nodes. `{}` for the defaults.
    score "score": ScoreSettings, hidden("not called");
    /// Calls the backend to decide which of kube-scheduler's victims may be evicted. `{}` for the defaults.
    preempt "preempt": PreemptSettings, hidden("not called");
    /// Calls the backend to bind. `{}` for the defaults. Not allowed with `binder: None`.
    bind "bind": BindSettings, hidden("not called");
    /// A [hook](hooks.md): calls the backend to change the pod before filter. `{}` for the defaults.
    before_filter "beforeFilter": HookSettings, hidden("not called");
    /// A [hook](hooks.md): calls the backend to change nodes before filter. `{}` for the defaults.
    before_filter_nodes "beforeFilterNodes": HookSettings, hidden("not called");
    /// A [hook](hooks.md): calls the backend to change the pod and nodes before score. `{}` for the defaults.
    before_score "beforeScore": ScoreHookSettings, hidden("not called");
}

settings! {
    /// Settings of a backend's filter calls.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct FilterSettings: "a mapping such as {timeout: 200ms}, {} for the defaults";
    /// The timeout of one call to this backend: a [duration](#durations), at most `timeouts.decision`. The default is
    /// `timeouts.decision` if that is shorter.
    timeout "timeout": Duration, default(DEFAULT_TIMEOUT);
    /// What a failure means. `Fail`: kube-scheduler gets an error that names the backend and retries the pod later, like an extender
    /// with `ignorable: false`. `Ignore`: the backend counts as accepting every node, like an extender with `ignorable: true`.
    failure_policy "failurePolicy": FailurePolicy, default(FailurePolicy::Fail);
    /// Whether kube-scheduler may evict pods because of this backend's rejections. `Ignored`: all of them are
    /// `FailedAndUnresolvableNodes`, and it evicts none. `Honored`: those that the backend does not mark as unresolvable are
    /// `FailedNodes`, and it may evict pods of lower priority there.
    preemption_may_help "preemptionMayHelp": Preemption, default(Preemption::Ignored);
}

settings! {
    /// Settings of a backend's score calls, and the weight of its scores. A failure is always ignored.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ScoreSettings: "a mapping such as {weight: 2}, {} for the defaults", check check_score => ScoreParts;
    /// As for `filter`.
    timeout "timeout": Duration, default(DEFAULT_TIMEOUT);
    /// The factor of the backend's scores: a whole number from 1 to 1000000.
    weight "weight": Weight, default(Weight::ONE);
    /// How raw scores are mapped to 0 to 10, over the nodes of one call. `None`: unchanged. `Range`: from the range that the backend
    /// declares. `Max`: the largest becomes 10. `MinMax`: the smallest becomes 0, the largest 10.
    normalize "normalize": Normalize, absent("as the backend declares");
    /// `true`: the smallest raw score is the best. Not with `normalize: None`.
    reversed "reversed": bool, absent("as the backend declares");
    /// Only `Ignore`: a failed score never fails the call; the other backends' scores count. kube-scheduler has no other behavior
    /// either.
    failure_policy "failurePolicy" as (always_ignore, write_scalar, IGNORE): &'static str, default(ALWAYS_IGNORE);
}

settings! {
    /// Settings of a backend's preempt calls.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct PreemptSettings: "a mapping such as {timeout: 200ms}, {} for the defaults";
    /// As for `filter`. The backends are called one after the other.
    timeout "timeout": Duration, default(DEFAULT_TIMEOUT);
    /// What a failure means. `Fail`: no pod is evicted. `Ignore`: the backend counts as agreeing.
    failure_policy "failurePolicy": FailurePolicy, default(FailurePolicy::Fail);
    /// Whether the backend may add victims that kube-scheduler did not name. `Refused`: that is a failure. `Allowed`: each must be on
    /// that node and have a lower priority than the pod; this requires `pods.source: Watch`. Its count of `PodDisruptionBudget`
    /// violations then replaces kube-scheduler's.
    added_victims "addedVictims": AddedVictims, default(AddedVictims::Refused);
}

settings! {
    /// Settings of a backend's bind calls.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct BindSettings: "a mapping such as {timeout: 5s}, {} for the defaults";
    /// The timeout of one call to this backend, at most `timeouts.bind`. The default is `timeouts.bind` if that is shorter.
    timeout "timeout": Duration, default(DEFAULT_BIND_TIMEOUT);
    /// What to do if the backend has definitely not bound. `Fail`: the bind fails, and the pod is retried with backoff. `Next`: the
    /// next binder is called. After an unclear failure the apiserver is read first.
    failure_policy "failurePolicy": BindFailurePolicy, default(BindFailurePolicy::Fail);
}

settings! {
    /// Settings of the calls of a hook before filter.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct HookSettings: "a mapping such as {timeout: 200ms}, {} for the defaults";
    /// As for `filter`.
    timeout "timeout": Duration, default(DEFAULT_TIMEOUT);
    /// What a failure means. `Fail`: kube-scheduler gets an error that names the backend. `Ignore`: the pod and the nodes stay as they
    /// are.
    failure_policy "failurePolicy": FailurePolicy, default(FailurePolicy::Fail);
}

settings! {
    /// Settings of the calls of a hook before score. A failure is always ignored: pod and nodes stay as they are.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ScoreHookSettings: "a mapping such as {timeout: 200ms}, {} for the defaults";
    /// As for `filter`.
    timeout "timeout": Duration, default(DEFAULT_TIMEOUT);
    /// Only `Ignore`, as for `score`: the pod and the nodes stay as they are.
    failure_policy "failurePolicy" as (always_ignore, write_scalar, IGNORE): &'static str, default(ALWAYS_IGNORE);
}

impl BackendSettings {
    /// Its verbs, each with the timeout of a call.
    pub fn timeouts(&self) -> PerPolicyVerb<Option<Duration>> {
        PerPolicyVerb::from_fn(|verb| match verb {
            PolicyVerb::Filter => self.filter.as_ref().map(|settings| settings.timeout),
            PolicyVerb::Score => self.score.as_ref().map(|settings| settings.timeout),
            PolicyVerb::Preempt => self.preempt.as_ref().map(|settings| settings.timeout),
            PolicyVerb::Bind => self.bind.as_ref().map(|settings| settings.timeout),
            PolicyVerb::BeforeScore => self.before_score.as_ref().map(|settings| settings.timeout),
            PolicyVerb::BeforeFilter | PolicyVerb::BeforeFilterNodes => {
                self.hook(verb).map(|settings| settings.timeout)
            }
        })
    }

    /// The settings of a hook before filter.
    fn hook(&self, verb: PolicyVerb) -> Option<&HookSettings> {
        match verb {
            PolicyVerb::BeforeFilter => self.before_filter.as_ref(),
            PolicyVerb::BeforeFilterNodes => self.before_filter_nodes.as_ref(),
            _ => None,
        }
    }

    /// The longest timeout of its verbs.
    pub fn longest_timeout(&self) -> Duration {
        self.timeouts().iter().filter_map(|(_, timeout)| *timeout).max().unwrap_or_default()
    }

    /// Its verbs.
    pub fn verbs(&self) -> impl Iterator<Item = PolicyVerb> {
        let timeouts = self.timeouts();
        PolicyVerb::ALL.into_iter().filter(move |verb| timeouts[*verb].is_some())
    }

    /// Whether it has a hook.
    pub fn has_hooks(&self) -> bool {
        self.verbs().any(PolicyVerb::is_hook)
    }

    /// The failure policy of a verb about nodes: Ignore for one that it does not have.
    pub fn policy_about_nodes(&self, verb: PolicyVerb) -> FailurePolicy {
        let policy = match verb {
            PolicyVerb::Filter => self.filter.as_ref().map(|settings| settings.failure_policy),
            PolicyVerb::Preempt => self.preempt.as_ref().map(|settings| settings.failure_policy),
            PolicyVerb::BeforeFilter | PolicyVerb::BeforeFilterNodes => {
                self.hook(verb).map(|settings| settings.failure_policy)
            }
            PolicyVerb::Score | PolicyVerb::BeforeScore | PolicyVerb::Bind => None,
        };
        policy.unwrap_or(FailurePolicy::Ignore)
    }

    /// The failure policy of a verb, as in the file.
    pub fn failure_policy(&self, verb: PolicyVerb) -> &'static str {
        match (verb, &self.bind) {
            (PolicyVerb::Bind, Some(settings)) => settings.failure_policy.word(),
            _ => self.policy_about_nodes(verb).word(),
        }
    }

    /// Whether its failure in a verb can end the call with an error.
    pub fn can_fail_calls(&self, verb: PolicyVerb) -> bool {
        match (verb, &self.bind) {
            (PolicyVerb::Bind, Some(settings)) => settings.failure_policy == BindFailurePolicy::Fail,
            _ => self.policy_about_nodes(verb) == FailurePolicy::Fail,
        }
    }
}

choices! {
    /// Whether a backend's answers count.
    pub enum Mode {
        /// Yes.
        Enforce = "Enforce",
        /// It is called in the background and its answers are recorded, never merged.
        Shadow = "Shadow",
        /// It is not called.
        Disabled = "Disabled",
    }

    /// Whether answers of a pure verb are cached.
    pub enum PureAnswers {
        /// They are reused for pods with the same facts, on nodes that have not changed.
        Remembered = "Remembered",
        /// The backend is called for each pod, as if the verb were not pure.
        AskedEachTime = "AskedEachTime",
    }

    /// Whether a backend may add victims to those of kube-scheduler.
    pub enum AddedVictims {
        /// No: it is a failure.
        Refused = "Refused",
        /// Yes, if each is on that node and of lower priority than the pod.
        Allowed = "Allowed",
    }

    /// The effect of a definite failure to bind. After an ambiguous one the apiserver is read.
    pub enum BindFailurePolicy {
        /// The bind fails: kube-scheduler retries the pod with backoff.
        Fail = "Fail",
        /// The next binder is called.
        Next = "Next",
    }

    /// How raw scores are mapped to 0 to 10, over the nodes of one prioritize request.
    pub enum Normalize {
        /// Unchanged.
        None = "None",
        /// From the range that the backend declares.
        Range = "Range",
        /// The largest score of the request becomes 10.
        Max = "Max",
        /// The smallest score of the request becomes 0, the largest 10.
        MinMax = "MinMax",
    }
}

impl Choice for FailurePolicy {
    const WORDS: &'static [(&'static str, Self)] = &[("Fail", Self::Fail), ("Ignore", Self::Ignore)];
}

impl Choice for Preemption {
    const WORDS: &'static [(&'static str, Self)] = &[("Ignored", Self::Ignored), ("Honored", Self::Honored)];
}

/// The failure policy of score, which has only one.
pub(super) const ALWAYS_IGNORE: &str = "Ignore";

fn always_ignore(field: &Cursor<'_>) -> Option<&'static str> {
    field.parsed("Ignore, the only policy: a failed score never fails the call", |text| match text {
        ALWAYS_IGNORE => Ok(ALWAYS_IGNORE),
        _ => Err(format!("unknown value {}", echo(text))),
    })
}

/// A backend's name in reasons, metrics and logs: a DNS-1123 label of 1 to 63 lower case letters, digits and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendName(String);

/// The longest name in bytes.
const LONGEST_NAME: usize = 63;

impl BackendName {
    /// Creates a name from a label. Mirrors `IsDNS1123Label` of `k8s.io/apimachinery`.
    ///
    /// # Errors
    /// The error in the text, as the predicate of a sentence.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST_NAME {
            return Err(format!("has {} characters, more than {LONGEST_NAME}", text.len()));
        }
        if !names::is_dns_label(text) {
            return Err(format!("{} is not a valid backend name", echo(text)));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl Setting for BackendName {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        field.parsed(NAME, Self::new)
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&scalar(self));
    }
}

impl Setting for BackendUrl {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        field.parsed(URL, Self::new)
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&self.to_string());
    }
}

/// The weight of a backend's scores: a whole number from 1 to 1,000,000. Default 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Weight(NonZeroU32);

impl Weight {
    /// The default weight.
    pub const ONE: Self = Self(NonZeroU32::MIN);
    /// The largest weight: 1,000,000.
    pub const LARGEST: u32 = 1_000_000;

    /// Creates a weight from 1 to [`Weight::LARGEST`]; `None` for any other number.
    pub fn new(number: i128) -> Option<Self> {
        let number = u32::try_from(number).ok().filter(|number| *number <= Self::LARGEST)?;
        NonZeroU32::new(number).map(Self)
    }

    /// The number, 1 to 1,000,000.
    pub fn value(self) -> u32 {
        self.0.get()
    }
}

impl Setting for Weight {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let right = "a whole number from 1 to 1000000";
        match field.value() {
            Value::Integer(number) => {
                field.accepted(Self::new(*number).ok_or_else(|| format!("{number} is out of range")), right)
            }
            Value::Fraction(number) => {
                field.accepted(Err(format!("{number:?} is not a whole number")), right)
            }
            _ => {
                field.wrong_kind(right);
                None
            }
        }
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&self.0.to_string());
    }
}

/// Describes a valid list of backends.
pub(super) const BACKENDS: &str =
    "a list with at least one backend such as {name: rack-drain, url: http://rack-drain:9000, filter: {}}";

/// All backends, in the file's order; written in their effective order.
impl Setting for Vec<BackendSettings> {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let items = field.items(BACKENDS)?;
        if items.is_empty() {
            field.mistake("is an empty list", BACKENDS);
            return None;
        }
        names_are_unique(&items);
        items.iter().map(BackendSettings::read).collect::<Vec<_>>().into_iter().collect()
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(" # in effective order");
        for position in effective_order(self) {
            out.item(|out| self[position].write_fields(out));
        }
    }
}

/// Records a mistake for each name of an earlier backend.
fn names_are_unique(items: &[Cursor<'_>]) {
    let mut first = HashMap::new();
    for item in items {
        let Some(field) = item.descend(&["name"]) else { continue };
        let Value::Text(name) = field.value() else { continue };
        if let Some(earlier) = first.get(name) {
            field.mistake(format!("{name:?} is already the name of {earlier}"), "a unique name");
        } else if BackendName::new(name).is_ok() {
            first.insert(name, item.path());
        }
    }
}

/// `tls` belongs to `https`, and `https` requires it; a backend without a verb would never be called.
fn check_backend(fields: &Section<'_>, parts: &mut BackendParts) {
    let uses_tls = parts.url.as_ref().map(|url| *url.scheme() == Scheme::HTTPS);
    match (uses_tls, fields.has("tls")) {
        (Some(false), true) => {
            let remedy = Remedy::Do("use an https URL, or remove it");
            fields.mistake_of("tls", "cannot be combined with an http URL", remedy);
        }
        (Some(true), false) => {
            fields.mistake_of("tls", "is missing, but url is https", "{caFile: FILE}");
        }
        _ => {}
    }
    let mode = parts.mode.unwrap_or(Mode::Enforce);
    if fields.has("canary") && mode != Mode::Enforce {
        let wrong = format!("cannot be combined with mode: {}", mode.word());
        fields.mistake_of("canary", wrong, Remedy::Do("remove it, or set mode: Enforce"));
    }
    if fields.has("maxRejectShare") && !fields.has("filter") {
        let remedy = Remedy::Do("remove it, or add `filter: {}`");
        fields.mistake_of("maxRejectShare", "is a limit for filter, and there is no filter", remedy);
    }
    if !PolicyVerb::ALL.iter().any(|verb| fields.has(verb.name())) {
        let remedy = Remedy::Do(
            "add a verb such as `filter: {}` or `score: {}`, or a hook such as `beforeFilter: {}`",
        );
        fields.mistake("has no verb and would never be called", remedy);
    }
}

fn check_score(fields: &Section<'_>, parts: &mut ScoreParts) {
    if (parts.normalize, parts.reversed) == (Some(Some(Normalize::None)), Some(Some(true))) {
        let wrong = "cannot be combined with normalize: None";
        fields.mistake_of("reversed", wrong, "another normalize, or false");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_names() {
        for text in ["a", "0", "rack-drain", "a--b", &"a".repeat(63)] {
            assert_eq!(BackendName::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn other_texts_are_not() {
        for text in ["", "-", "-a", "a-", "A", "a.b", "a_b", "a b", "ä", "a\n"] {
            assert_eq!(BackendName::new(text), Err(format!("{text:?} is not a valid backend name")));
        }
        assert_eq!(BackendName::new(&"a".repeat(64)), Err("has 64 characters, more than 63".to_owned()));
    }
}
