//! Asks an existing HTTP scheduler extender: what kube-scheduler would send to it goes there, and its reply is read
//! as kube-scheduler reads it (`pkg/scheduler/extender.go`). Where kube-scheduler would use a reply that contradicts
//! the call, such as a node that was not sent, the call fails instead.
//!
//! A reply, whatever it is, is about the pod of the call: where it is no answer, the call fails with
//! [`CannotAnswer`]. Without a reply (connection refused, reset, late) it fails with [`NotReady`].
//!
//! [`args`] are the extender's entry in kube-scheduler's configuration, [`request`] the bodies, [`client`] sends
//! them, [`reply`] reads what comes back.

mod allowed;
mod args;
mod client;
mod json;
mod reply;
mod request;
#[cfg(test)]
mod tests;
mod tls;

use std::collections::HashMap;

use extender_policy_sdk::{
    Args, ArgsError, Bind, BindAsk, BoxFuture, Candidate, CannotAnswer, Eviction, Info, NO_OPINION, NodePart,
    Nodes, NotReady, Pod, PodPart, Policy, Reads, Scale, Unanswered, Verb, Verdict,
};

pub use self::allowed::{Allowed, Url};
use self::{
    args::{Effective, Entry},
    client::Client,
    reply::{BindReply, FilterReply, PreemptReply, PrioritizeReply, Victims},
};

/// The reason of a node that the extender left out of its reply without a text. kube-scheduler shows none.
const LEFT_OUT: &str = "the extender did not keep the node";

/// One extender.
#[derive(Debug)]
pub struct HttpExtender {
    /// What the policy calls itself.
    name: String,
    entry: Entry,
    client: Client,
}

impl HttpExtender {
    /// The extender that args describe: its entry in kube-scheduler's configuration.
    ///
    /// # Errors
    /// All mistakes of the entry, with what is expected; it names what is not allowed.
    pub fn new(name: &str, allowed: &Allowed, args: &Args) -> Result<Self, ArgsError> {
        let entry = Entry::parse(args)?;
        allowed.check(&entry).map_err(|mistakes| ArgsError::new(mistakes.join("; ")))?;
        let client = Client::new(&entry).map_err(ArgsError::new)?;
        Ok(Self { name: name.to_owned(), entry, client })
    }

    async fn ask(&self, verb: Option<&str>, body: Result<Vec<u8>, String>) -> Result<Vec<u8>, Unanswered> {
        // The SDK calls no verb that is not declared.
        let verb = verb.ok_or_else(|| NotReady("the verb is not configured".to_owned()))?;
        self.client.post(verb, body.map_err(CannotAnswer)?).await
    }
}

impl Policy for HttpExtender {
    fn info(&self) -> Info {
        let Entry { filter_verb, prioritize_verb, preempt_verb, bind_verb, .. } = &self.entry;
        let mut names = Reads::new();
        names.node(NodePart::Name).pod(PodPart::RawJson);
        let mut nodes = names.clone();
        if !self.entry.node_cache_capable {
            nodes.node(NodePart::RawJson);
        }
        let verb = |reads: &Reads, effective: Effective| {
            let verb = Verb::whole_set().waits().reads(reads);
            if self.entry.side_effects.contains(&effective) { verb.side_effects() } else { verb }
        };
        let mut info = Info::new(&self.name, env!("CARGO_PKG_VERSION"));
        if filter_verb.is_some() {
            info = info.filters(verb(&nodes, Effective::Filter));
        }
        if prioritize_verb.is_some() {
            info = info.scores(verb(&nodes, Effective::Prioritize), Scale::unbounded());
        }
        if preempt_verb.is_some() {
            info = info.preempts(verb(&names, Effective::Preempt));
        }
        if bind_verb.is_some() {
            info = info.binds();
        }
        info
    }

    fn filter_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<Verdict>, Unanswered>> {
        Box::pin(async move {
            let body = request::decide(pod, nodes, self.entry.node_cache_capable);
            let reply = self.ask(self.entry.filter_verb.as_deref(), body).await?;
            let names: Vec<_> = nodes.iter().map(|node| node.name()).collect();
            let reply = FilterReply::read(&reply).map_err(CannotAnswer)?;
            Ok(verdicts(reply, &names, self.entry.node_cache_capable).map_err(CannotAnswer)?)
        })
    }

    fn score_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<i32>, Unanswered>> {
        Box::pin(async move {
            let body = request::decide(pod, nodes, self.entry.node_cache_capable);
            let reply = self.ask(self.entry.prioritize_verb.as_deref(), body).await?;
            let PrioritizeReply(scores) = PrioritizeReply::read(&reply).map_err(CannotAnswer)?;
            let mut sums: HashMap<&str, i64> = HashMap::new();
            for (host, score) in &scores {
                let sum = sums.entry(host).or_default();
                *sum = sum.wrapping_add(*score);
            }
            let score = |name: &str| sums.get(name).copied().unwrap_or_default();
            Ok(nodes.iter().map(|node| narrowed(score(node.name()))).collect())
        })
    }

    fn preempt_later<'a>(
        &'a self,
        pod: Pod<'a>,
        candidates: &'a [Candidate<'a>],
    ) -> BoxFuture<'a, Result<Vec<Eviction>, Unanswered>> {
        Box::pin(async move {
            let body = request::preempt(pod, candidates, self.entry.node_cache_capable);
            let reply = self.ask(self.entry.preempt_verb.as_deref(), body).await?;
            let PreemptReply(mut kept) = PreemptReply::read(&reply).map_err(CannotAnswer)?;
            let evictions = candidates.iter().map(|candidate| match kept.remove(candidate.node().name()) {
                None => Eviction::Spare,
                Some(victims) => evicted(candidate, victims),
            });
            let evictions: Vec<_> = evictions.collect();
            match kept.into_keys().next() {
                None => Ok(evictions),
                Some(node) => Err(not_in_the_call(&node).into()),
            }
        })
    }

    /// kube-scheduler takes an `Error` as the end of the bind: it forgets the pod on the node at once, and so must the gateway.
    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move {
            let reply = self.ask(self.entry.bind_verb.as_deref(), Ok(request::bind(ask))).await?;
            match BindReply::read(&reply).map_err(CannotAnswer)?.0 {
                error if error.is_empty() => Ok(Bind::Bound),
                error => Ok(Bind::NotBound(error)),
            }
        })
    }
}

fn not_in_the_call(node: &str) -> CannotAnswer {
    CannotAnswer(format!("the extender kept node {node:?}, which is not in the call"))
}

/// One verdict for each name. As `HTTPExtender.Filter` and `findNodesThatPassExtenders` of kube-scheduler: what the
/// reply keeps is feasible, whatever else it says about the node; of the others, those in
/// `FailedAndUnresolvableNodes` and those without a text stay rejected if pods are evicted.
fn verdicts(reply: FilterReply, names: &[&str], node_cache_capable: bool) -> Result<Vec<Verdict>, String> {
    let FilterReply { nodes, node_names, failed, unresolvable, error } = reply;
    if !error.is_empty() {
        return Err(error);
    }
    let kept = node_names.filter(|_| node_cache_capable).or(nodes).unwrap_or_default();
    let mut verdicts: HashMap<&str, Verdict> =
        names.iter().map(|name| (*name, rejected(name, &failed, &unresolvable))).collect();
    for name in &kept {
        let Some(verdict) = verdicts.get_mut(name.as_str()) else {
            return Err(not_in_the_call(name).0);
        };
        *verdict = Verdict::Accept;
    }
    Ok(names.iter().map(|name| verdicts[name].clone()).collect())
}

fn rejected(name: &str, failed: &HashMap<String, String>, unresolvable: &HashMap<String, String>) -> Verdict {
    match (unresolvable.get(name), failed.get(name)) {
        (Some(reason), _) => Verdict::reject(reason.clone()).unresolvable(),
        (None, Some(reason)) => Verdict::reject(reason.clone()),
        (None, None) => Verdict::reject(LEFT_OUT).unresolvable(),
    }
}

/// Scores of extenders are 0 to 10. kube-scheduler takes others as they are, and calculates with 64 bits. None of them is
/// [`NO_OPINION`].
fn narrowed(score: i64) -> i32 {
    let score = score.clamp(i64::from(NO_OPINION) + 1, i32::MAX.into());
    i32::try_from(score).expect("it was clamped")
}

/// The victims that the reply names: those of the call by their positions, the others by UID, which the gateway takes if
/// its configuration allows them. None at all is what the failure policy says: in kube-scheduler an error, or no such node
/// for an ignorable extender, unless none were in the call.
fn evicted(candidate: &Candidate<'_>, reply: Victims) -> Eviction {
    let Victims { uids, pdb_violations } = reply;
    let offered: HashMap<&str, u32> = candidate.victims().map(|victim| victim.uid()).zip(0..).collect();
    let (mut victims, mut added) = (Vec::new(), Vec::new());
    for uid in uids {
        match offered.get(uid.as_str()) {
            Some(position) => victims.push(*position),
            None => added.push(uid),
        }
    }
    added.sort_unstable();
    added.dedup();
    victims.sort_unstable();
    victims.dedup();
    let pdb_violations = u32::try_from(pdb_violations.max(0)).unwrap_or(u32::MAX);
    if added.is_empty() && pdb_violations == candidate.pdb_violations() {
        return Eviction::Only(victims);
    }
    Eviction::Changed { victims, added, pdb_violations }
}
