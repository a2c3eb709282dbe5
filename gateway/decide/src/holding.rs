//! Answers that hold for other pods than the one that was asked about: for which ones, and until when.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use extender_gateway_backend::{Backend, session::Session};
use extender_gateway_cluster::table::TableSnapshot;
use extender_gateway_contract::{pod::PodView, row::RowView};
use extender_gateway_core::{
    PolicyVerb,
    filter::{By, Group},
    interest::{Interest, Namespaces},
};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_record::{CallRecord, Outcome};
use extender_gateway_settings::Mode;
use extender_policy_api::v1beta1::PodPart;

use super::{Decider, ask::Participant};

/// The verbs whose answers are held.
const VERBS: [PolicyVerb; 2] = [PolicyVerb::Filter, PolicyVerb::Score];

/// What the answers of pure verbs depend on besides the pod, as it is at one time. If it is equal later, nothing has changed.
#[derive(Debug, Default, PartialEq)]
pub struct DecidingState(Vec<BackendState>);

#[derive(Debug)]
struct BackendState {
    /// An override of the mode.
    mode: Option<Mode>,
    /// By verb: the sessions that may be asked. Each has an address of its own as long as something refers to it.
    sessions: [Vec<Weak<Session>>; 2],
    /// Whether their answers are trusted, and when what they read of nodes has changed.
    trusted: Vec<bool>,
    changed: Vec<[u64; 2]>,
}

impl PartialEq for BackendState {
    fn eq(&self, other: &Self) -> bool {
        let same = |one: &[Weak<Session>], other: &[Weak<Session>]| {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.ptr_eq(other))
        };
        self.mode == other.mode
            && self.trusted == other.trusted
            && self.changed == other.changed
            && self.sessions.iter().zip(&other.sessions).all(|(one, other)| same(one, other))
    }
}

/// The pods that get the same answer: those that are equal in what was read of them.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PodClass {
    /// The namespace was read.
    pub namespace: bool,
    /// The keys of labels that were read.
    pub labels: BTreeSet<String>,
    /// Anything else was read, but nothing that pods of one template do not share.
    pub template: bool,
}

impl PodClass {
    fn add_interest(&mut self, interest: &Interest) {
        self.namespace |= interest.namespaces != Namespaces::All;
        self.labels.extend(interest.selector.iter().map(|requirement| requirement.key.clone()));
        self.template |= !interest.resources.is_empty();
    }

    fn add_view(&mut self, view: &PodView) {
        if view.facts.names_all_that_it_has() {
            self.namespace |= view.facts.has(PodPart::Namespace);
            self.labels.extend(view.facts.labels.keys().iter().cloned());
        } else {
            self.template = true;
        }
    }
}

impl Decider {
    /// The state of now.
    pub fn deciding_state(&self) -> DecidingState {
        let table = self.settings.tables.table.as_ref().map(|table| table.read());
        DecidingState(self.backends.iter().map(|backend| self.state_of(backend, table.as_deref())).collect())
    }

    fn state_of(&self, backend: &Backend, table: Option<&TableSnapshot>) -> BackendState {
        let sessions = VERBS.map(|verb| backend.usable_sessions(verb));
        let trusted = sessions.iter().flatten().map(|session| session.cache.is_trusted()).collect();
        let changed_in = |verb: PolicyVerb, session: &Session| {
            let column = session.info.about_nodes(verb).ok()?.nodes.column.as_ref()?;
            Some(table?.changed(column.id()))
        };
        let all = VERBS.into_iter().zip(&sessions);
        let changed = all.flat_map(|(verb, sessions)| {
            sessions.iter().filter_map(move |session| changed_in(verb, session))
        });
        let changed = changed.collect();
        let mode = self.settings.overrides.mode_of(backend.settings.name.as_str());
        let sessions = sessions.map(|sessions| sessions.iter().map(Arc::downgrade).collect());
        BackendState { mode, sessions, trusted, changed }
    }

    /// The pods for which the answer about this pod holds; `None` if it may hold for this pod alone. It does not if a backend that is
    /// asked declares that it is not pure, is not cached, reads what changes with each pod that is placed, is asked about some
    /// pods in shadow mode, or is told how attempts end.
    pub fn class_of(&self, pod: &ObjectPod<'_>) -> Option<PodClass> {
        if !self.hooks.is_empty() {
            return None;
        }
        let mut class = PodClass { namespace: !self.settings.exempt.is_empty(), ..PodClass::default() };
        if self.settings.exempt.contains(pod.namespace()) {
            return Some(class);
        }
        for backend in &self.backends {
            let settings = &backend.settings;
            let verbs = [settings.filter.is_some(), settings.score.is_some()];
            let mut verbs = VERBS.into_iter().zip(verbs).filter(|(_, is_asked)| *is_asked).peekable();
            if verbs.peek().is_none() {
                continue;
            }
            let interest = &settings.matches.interest;
            class.add_interest(interest);
            let mode = self.settings.overrides.mode_of(settings.name.as_str()).unwrap_or(settings.mode);
            if !interest.covers(pod) || mode == Mode::Disabled {
                continue;
            }
            if mode == Mode::Shadow || settings.canary.is_some() || settings.max_reject_share.is_some() {
                return None;
            }
            for (verb, _) in verbs {
                class.add_view(&held_view(backend, verb)?);
            }
        }
        Some(class)
    }
}

impl Decider {
    /// The views of nodes of the filters behind these rejections. `None` if these may depend on anything else of nodes: a filter is not
    /// pure, or has pods of other nodes counted, or a hook has changed what it was told, or the gateway itself rejects.
    pub(super) fn rejecting_views(
        &self,
        participants: &[Participant<'_>],
        rejections: &[Group],
    ) -> Option<Vec<RowView>> {
        if !self.hooks.is_empty() || rejections.is_empty() {
            return None;
        }
        let seat = |rejection: &Group| if let By::Seat(seat) = rejection.by { Some(seat) } else { None };
        // A backend can have many reasons.
        let seats = rejections.iter().map(seat).collect::<Option<BTreeSet<_>>>()?;
        let view = |seat: usize| {
            let session = &participants[seat].ready.as_ref().ok()?.session;
            let plan = session.info.about_nodes(PolicyVerb::Filter).ok()?;
            let depends_on_node = plan.pure && plan.pod.topology.is_empty() && session.cache.is_trusted();
            depends_on_node.then(|| plan.nodes.rows.clone())
        };
        seats.into_iter().map(view).collect()
    }
}

/// Whether each backend has answered in this call, about all nodes.
pub fn is_complete(record: &CallRecord) -> bool {
    record.backends.iter().all(|part| {
        let has_answered = matches!(part.outcome, Outcome::Filtered(_) | Outcome::Scored(..));
        has_answered && part.not_sent.lists().iter().all(|nodes| nodes.is_empty())
    })
}

/// The view of pods of a verb whose answers hold for other pods; `None` if they do not.
fn held_view(backend: &Backend, verb: PolicyVerb) -> Option<PodView> {
    let sessions = backend.usable_sessions(verb);
    let (first, others) = sessions.split_first()?;
    let is_same = |other: &Arc<Session>| Arc::ptr_eq(&first.cache, &other.cache);
    let is_cached = match verb {
        PolicyVerb::Filter => first.cache.verdicts.is_some(),
        _ => first.cache.scores.is_some(),
    };
    if !others.iter().all(is_same) || !is_cached || !first.cache.is_trusted() || first.takes_outcomes() {
        return None;
    }
    let plan = first.info.about_nodes(verb).ok()?;
    let reads_pods_on_nodes = |view: &RowView| {
        view.wants_usage() || view.wants_nominated() || view.wants_raw() || !view.pod_counts().is_empty()
    };
    let reads_this_pod = |view: &PodView| view.identity || view.raw || !view.topology.is_empty();
    let is_held = plan.pure && !reads_pods_on_nodes(&plan.nodes.rows) && !reads_this_pod(&plan.pod);
    is_held.then(|| plan.pod.clone())
}
