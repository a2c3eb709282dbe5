//! Runs the hooks of a call, one after the other: each is told what those before have left. Then the policies are called
//! about the result.

use extender_gateway_backend::{
    Attempt, Backend,
    answer_cache::{AnswerCache, InternedCache, VerbCache},
    info::Info,
    session::Session,
};
use extender_gateway_contract::{
    answer::Reply,
    api,
    hook::{ChangedNodes, Changes},
    question::{CallFields, Question, Wants},
};
use extender_gateway_core::{BackendFailure, FailurePolicy, PolicyVerb, filter::Asked};
use extender_gateway_record::{CallRecord, OpenAttempt, Outcome};
use extender_gateway_settings::Mode;

use super::{
    CallError, Decider,
    ask::{Ask, NodeQuestion, Participant},
    asker::Tries,
    call_context::CallContext,
};

impl Decider {
    /// Runs the hooks before filter.
    ///
    /// # Errors
    /// The request contains a node that cannot be parsed, or a hook failed whose failure policy is Fail.
    pub(super) async fn before_filter(
        &self,
        context: &mut CallContext<'_>,
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        for backend in self.with_hook(context, PolicyVerb::BeforeFilter) {
            let place = begin(backend, PolicyVerb::BeforeFilter, record);
            let mut attempt = context.recorder.start_attempt(place, context.trace);
            let changes = pod_changes(backend, context, &mut attempt).await;
            attempt.finish(&changes);
            self.apply(changes, backend, place, context, record)?;
        }
        self.change_nodes(PolicyVerb::BeforeFilterNodes, context, record).await
    }

    /// Runs the hooks before score.
    ///
    /// # Errors
    /// The request contains a node that cannot be parsed.
    pub(super) async fn before_score(
        &self,
        context: &mut CallContext<'_>,
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        self.change_nodes(PolicyVerb::BeforeScore, context, record).await
    }

    /// The backends whose hook counts for the pod of this call, in the order of the file. Which these are is decided by the
    /// pod as kube-scheduler sent it.
    fn with_hook<'d>(
        &'d self,
        context: &CallContext<'_>,
        verb: PolicyVerb,
    ) -> impl Iterator<Item = &'d Backend> + use<'d> {
        let pod = context.call.pod;
        let exempt = self.settings.exempt.contains(pod.namespace());
        let all = if exempt { &[] } else { self.hooks.as_slice() };
        let all = all.iter().filter(|backend| backend.settings.timeouts()[verb].is_some());
        let interested: Vec<_> = all.filter(|backend| self.applies(backend, pod, Mode::Enforce)).collect();
        interested.into_iter().map(|backend| &**backend)
    }

    async fn change_nodes(
        &self,
        verb: PolicyVerb,
        context: &mut CallContext<'_>,
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        for backend in self.with_hook(context, verb) {
            let place = begin(backend, verb, record);
            let ready = context.ready(verb, backend).await?;
            // They stay as they are.
            record.backends[place].not_sent = context.not_sent(backend, &ready);
            let timeout = backend.settings.timeouts()[verb].unwrap_or_default();
            let participant = Participant { place, backend, timeout, ready };
            let changes = participant.ask(&HookQuestion { verb }, context, &Asked::All).await;
            let changes = changes.map(|changes| match &participant.ready {
                Ok(ready) => in_call(changes, context.nodes(ready).known.as_deref()),
                Err(_) => changes,
            });
            self.apply(changes, backend, place, context, record)?;
        }
        Ok(())
    }

    /// Applies what a hook changes, and records it.
    fn apply(
        &self,
        changes: Result<Changes, BackendFailure>,
        backend: &Backend,
        place: usize,
        context: &mut CallContext<'_>,
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        match changes {
            Ok(changes) => {
                context.change(&changes);
                if changes.nodes.iter().any(|changed| !changed.change.holds.is_empty()) {
                    record.holds = Some(context.hold_users());
                }
                record.backends[place].outcome = Outcome::Changed(changes);
                Ok(())
            }
            Err(failure) => {
                let verb = record.backends[place].verb;
                self.record_failure(verb, &failure, record, place);
                match backend.settings.policy_about_nodes(verb) {
                    FailurePolicy::Ignore => Ok(()),
                    FailurePolicy::Fail => Err(CallError::backend(&backend.settings, verb, failure)),
                }
            }
        }
    }
}

fn begin(backend: &Backend, verb: PolicyVerb, record: &mut CallRecord) -> usize {
    record.add_part(&backend.settings, verb, backend.settings.policy_about_nodes(verb))
}

/// The same changes with positions in the call: those of the nodes with rows, `None` for all nodes.
fn in_call(mut changes: Changes, known: Option<&[u32]>) -> Changes {
    if let Some(known) = known {
        let positions = changes.nodes.iter_mut().flat_map(|changed| &mut changed.positions);
        positions.for_each(|at| *at = known[*at as usize]);
    }
    changes
}

/// What a hook that is told the pod alone changes.
async fn pod_changes(
    backend: &Backend,
    context: &mut CallContext<'_>,
    attempt: &mut OpenAttempt,
) -> Result<Changes, BackendFailure> {
    let timeout = backend.settings.timeouts()[PolicyVerb::BeforeFilter].unwrap_or_default();
    let asker = context.asker(backend, PolicyVerb::BeforeFilter, timeout);
    let mut session = asker.session()?;
    let mut tries = asker.begin(&session, attempt)?;
    loop {
        match ask_about_pod(backend, &session, context, &mut tries).await {
            Ok(changes) => return Ok(changes),
            Err(failure) => session = tries.elsewhere(&session, |_| true).ok_or(failure)?,
        }
    }
}

async fn ask_about_pod(
    backend: &Backend,
    session: &Session,
    context: &mut CallContext<'_>,
    tries: &mut Tries<'_>,
) -> Result<Changes, BackendFailure> {
    let plan = session.info.pod_hook(PolicyVerb::BeforeFilter)?;
    let pod = context.pod_in(&plan.pod)?;
    let cache = session.cache.changes[PolicyVerb::BeforeFilter].as_ref();
    let cache = cache.filter(|_| session.cache.is_trusted());
    let known = cache.and_then(|cache| cache.recall_pod(&pod));
    let is_check = known.is_some() && cache.is_some_and(|cache| cache.nodes.answers.take_check());
    if let Some(known) = known.as_ref().filter(|_| !is_check) {
        tries.attempt.reads_of_pods = Some(plan.reads_of_pods.clone());
        return Ok(known.clone());
    }
    let CallContext { id, purpose, .. } = &*context;
    let call = CallFields { id, purpose: *purpose, reads: plan.reads_id, snapshot: 0 };
    let changes = backend.pod_hook(session, call, &pod, tries.request()).await?;
    // The answer may have shown that the backend has changed.
    let cache = cache.filter(|_| session.cache.is_trusted());
    match cache {
        Some(_) if known.is_some_and(|known| known != changes) => {
            tries.attempt.impure |= backend.mark_impure(session, PolicyVerb::BeforeFilter);
        }
        Some(cache) => cache.store_pod(&pod, &changes),
        None => {}
    }
    Ok(changes)
}

/// What does a hook about nodes change?
struct HookQuestion {
    verb: PolicyVerb,
}

impl HookQuestion {
    fn cache<'c>(&self, cache: &'c AnswerCache) -> Option<&'c InternedCache<ChangedNodes>> {
        cache.changes[self.verb].as_ref().map(|cache| &cache.nodes)
    }
}

impl NodeQuestion for HookQuestion {
    type Fresh = Changes;
    /// Numbered as in [`InternedCache`].
    type Cached = u32;
    /// Positions are those of nodes with rows.
    type Answer = Changes;

    fn verb(&self) -> PolicyVerb {
        self.verb
    }

    fn wants(&self, _: &Info) -> Wants {
        api::hook(self.verb).map_or(Wants::Nothing, Wants::Hook)
    }

    async fn send(
        &self,
        backend: &Backend,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<Changes>, BackendFailure> {
        backend.hook(self.verb, session, question, attempt).await
    }

    fn cached<'c>(&self, cache: &'c AnswerCache) -> Option<&'c VerbCache<u32>> {
        self.cache(cache).map(|changes| &changes.answers)
    }

    fn read(&self, cache: &AnswerCache, fresh: &Changes, count: usize) -> Vec<Option<u32>> {
        self.cache(cache).map_or_else(Vec::new, |changes| changes.read(&fresh.nodes, count))
    }

    fn accept(&self, _: &Ask<'_>, _: &[u32], fresh: Changes) -> Changes {
        fresh
    }

    fn splice(&self, ask: &Ask<'_>, known: Vec<u32>, missing: Option<(&[u32], Changes)>) -> Changes {
        let missing = missing.map(|(missing, fresh)| (missing, fresh.nodes));
        let changes = self.cache(&ask.session.cache);
        let nodes = changes.map_or_else(Vec::new, |changes| changes.spliced(known, missing));
        Changes { pod: None, nodes }
    }
}
