//! Questions to pure verbs with their answers, from the whole run: to be asked again at its end.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use bytes::Bytes;
use extender_policy_api::v1beta1::{Nodes, nodes::Form};

use crate::{answer::Answer, declared::Verb, question::Question, random::Random};

/// The questions of a verb that are kept, and the most nodes of one: a few megabytes.
const KEPT: usize = 300;
const NODES: u32 = 200;

/// A question that was answered.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Without what is in the message alone: the call, the pod and the nodes.
    pub(crate) question: Question,
    pub(crate) message: Bytes,
    pub(crate) answer: Answer,
    pub(crate) at: Instant,
}

impl Asked {
    pub(crate) fn new(question: &Question, answer: Answer) -> Self {
        let message = question.encode();
        let Question { verb, want_scores, .. } = *question;
        let nodes = question.nodes.is_some().then(|| Nodes { count: question.count(), form: None });
        let question = Question { verb, call: None, pod: None, nodes, candidates: Vec::new(), want_scores };
        Self { question, message, answer, at: Instant::now() }
    }
}

/// Of each verb how many were asked, and some: as many from the beginning of the run as from its end.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<BTreeMap<Verb, (usize, Vec<Asked>)>>);

impl Memory {
    pub(crate) fn keep(&self, question: &Question, answer: &Answer) {
        let by_table = matches!(question.nodes, Some(Nodes { form: Some(Form::Table(_)), .. }));
        // A table may be gone when the question is asked again.
        if by_table || question.count() > NODES {
            return;
        }
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, kept) = samples.entry(question.verb).or_default();
        let place = Random::new(u64::try_from(*seen).unwrap_or_default()).below(*seen + 1);
        *seen += 1;
        let asked = || Asked::new(question, answer.clone());
        if kept.len() < KEPT {
            kept.push(asked());
        } else if let Some(kept) = kept.get_mut(place) {
            *kept = asked();
        }
    }

    /// What is kept of a verb.
    pub(crate) fn of(&self, verb: Verb) -> Vec<Asked> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        samples.get(&verb).map(|(_, kept)| kept.clone()).unwrap_or_default()
    }
}
