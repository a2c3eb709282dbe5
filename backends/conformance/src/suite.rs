//! What all cases share: the connection, the handshake, random objects, and ways to ask.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error as _,
    hash::BuildHasher as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::Bytes;
use extender_policy_api::{limits::STATUS_MESSAGE_BYTES, v1beta1 as api};
use tokio::{net::TcpStream, time::Instant};
use tonic::{Code, Status};

use crate::{
    answer::{self, Answer, Response, Verdict},
    asked::{Asked, Memory},
    case::{Stop, failed, skipped},
    client::{Client, Extras, code_name, reason, shown},
    declared::{Declared, Terms, Verb},
    objects::{Objects, Vocabulary},
    options::{Bindable, Target},
    question::{Question, Scene},
    timing::Timing,
    trail::counted,
};

/// More than any request has whose response is read as bytes.
const FEW_NODES: u32 = 100;

/// A backend that is being checked.
#[derive(Debug)]
pub struct Suite {
    pub(crate) target: Target,
    pub(crate) client: Client,
    pub(crate) declared: Declared,
    pub(crate) args: Bytes,
    pub(crate) bindable: Option<Bindable>,
    vocabulary: Vocabulary,
    seed: u64,
    /// Different each time.
    numbers: AtomicU64,
    /// The longest message of a status that came back, and of which method.
    longest_status: Mutex<(usize, String)>,
    /// How many verdicts of each kind a verb gave, so that a report can say that all were the same.
    verdicts: Mutex<BTreeMap<Verb, BTreeMap<&'static str, usize>>>,
    /// The verbs whose plain question is not answered: nothing else of them is worth asking.
    unanswered: Mutex<BTreeSet<Verb>>,
    timings: Mutex<Vec<Timing>>,
    pub(crate) asked: Memory,
    /// A connection on which nothing is sent, from the beginning: no case then waits for its end alone.
    pub(crate) silent: tokio::sync::Mutex<Silent>,
}

/// A connection on which nothing is sent.
#[derive(Debug)]
pub(crate) struct Silent {
    pub(crate) connection: std::io::Result<TcpStream>,
    pub(crate) since: Instant,
}

impl Suite {
    /// A suite for a backend that has responded to the handshake.
    pub(crate) async fn new(target: Target, client: Client, declared: Declared) -> Self {
        let silent = Silent { connection: target.silent().await, since: Instant::now() };
        let vocabulary = Vocabulary::new(declared.keys(), &target.all_args(), &target.values);
        Self {
            args: target.args.clone(),
            bindable: target.bindable.clone(),
            seed: target.seed,
            // Random: another run may have tables in the backend at the same time.
            numbers: AtomicU64::new(std::hash::RandomState::new().hash_one(target.seed)),
            longest_status: Mutex::default(),
            verdicts: Mutex::default(),
            unanswered: Mutex::default(),
            timings: Mutex::default(),
            asked: Memory::default(),
            silent: silent.into(),
            target,
            client,
            declared,
            vocabulary,
        }
    }

    /// Another connection.
    pub(crate) async fn connect(&self) -> Result<Client, Stop> {
        self.target
            .connect()
            .await
            .map_err(|error| Stop::Failed(format!("another connection failed: {error}")))
    }

    /// Random objects, the same in every run with the same seed.
    pub(crate) fn objects(&self) -> Objects {
        Objects::new(self.vocabulary.clone(), self.seed)
    }

    /// A pod and so many nodes.
    pub(crate) fn scene(&self, nodes: usize) -> Scene {
        Scene::random(&mut self.objects(), nodes)
    }

    /// A name that no table of this suite had.
    pub(crate) fn table_name(&self) -> String {
        format!("{:016x}", self.random())
    }

    /// The operator's args, or none, in JSON that was never sent: with another white space at the end.
    pub(crate) fn args_never_sent(&self) -> Bytes {
        let number = self.random();
        let space = (0..u64::BITS).map(|bit| if number >> bit & 1 == 0 { b' ' } else { b'\t' });
        let args: &[u8] = if self.args.is_empty() { b"{}" } else { &self.args };
        args.iter().copied().chain(space).collect()
    }

    /// A number that this suite did not use before, and hardly another one.
    fn random(&self) -> u64 {
        // An odd factor: different numbers have different products.
        self.numbers.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The verb's declaration; a case about a verb that is not declared is skipped.
    pub(crate) fn terms(&self, verb: Verb) -> Result<Terms<'_>, Stop> {
        let Some(terms) = self.declared.verb(verb) else {
            return skipped(format!("{} is not declared", verb.name()));
        };
        if self.is_unanswered(verb) {
            return skipped(format!("{} is not answered", verb.title()));
        }
        Ok(terms)
    }

    /// The verbs that can be asked: all but bind and those that are not answered.
    pub(crate) fn askable(&self) -> impl Iterator<Item = Terms<'_>> {
        self.declared.verbs().filter(|terms| terms.verb != Verb::Bind && !self.is_unanswered(terms.verb))
    }

    fn is_unanswered(&self, verb: Verb) -> bool {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).contains(&verb)
    }

    /// From now on the cases about this verb are skipped.
    pub(crate) fn give_up(&self, verb: Verb) {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner).insert(verb);
    }

    /// How long calls took, for the report.
    pub(crate) fn timed(&self, timing: Timing) {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).push(timing);
    }

    /// How long calls took.
    pub fn timings(&self) -> Vec<Timing> {
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the backend's process has ended: connections are refused.
    pub(crate) async fn has_ended(&self) -> bool {
        let connected = self.target.silent().await;
        connected.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionRefused)
    }

    /// What a gateway would ask about this scene.
    pub(crate) fn question(&self, verb: Verb, scene: &Scene) -> Result<Question, Stop> {
        Ok(Question::new(self.terms(verb)?, scene, &self.args))
    }

    /// What a gateway would ask about so many random nodes.
    pub(crate) fn random_question(&self, verb: Verb, nodes: usize) -> Result<Question, Stop> {
        self.question(verb, &self.scene(nodes))
    }

    /// A question that must be answered.
    pub(crate) async fn ask(&self, question: &Question) -> Result<Answer, Stop> {
        let answer = self.ask_on(&self.client, question, Extras::default()).await?;
        if self.declared.verb(question.verb).is_some_and(Terms::is_pure) {
            self.asked.keep(question, &answer);
        }
        Ok(answer)
    }

    /// The answer to the same question now.
    pub(crate) async fn ask_again(&self, asked: &Asked) -> Result<Answer, Stop> {
        let Asked { question, message, .. } = asked;
        let extras = Extras { nodes: question.count(), ..Extras::default() };
        let answered = self.send_on(&self.client, question.verb, message.clone(), extras).await?;
        answer(question, &answered.map_err(|status| not_answered(question, &status))?)
    }

    /// The same on this connection: first with the digest of the args, as a gateway asks.
    pub(crate) async fn ask_on(
        &self,
        client: &Client,
        question: &Question,
        extras: Extras,
    ) -> Result<Answer, Stop> {
        let extras = Extras { nodes: question.count(), ..extras };
        let answered =
            match self.send_on(client, question.verb, question.encode_by_digest(), extras.clone()).await? {
                Err(status) if is_args_unknown(&status) => {
                    self.send_on(client, question.verb, question.encode(), extras).await?
                }
                answered => answered,
            };
        let bytes = answered.map_err(|status| not_answered(question, &status))?;
        let answer = answer(question, &bytes)?;
        self.count(question.verb, &answer);
        Ok(answer)
    }

    /// Any message of a verb, in place of one about so few nodes.
    pub(crate) async fn send(&self, verb: Verb, message: Bytes) -> Result<Result<Bytes, Status>, Stop> {
        let extras = Extras { nodes: FEW_NODES, ..Extras::default() };
        self.send_on(&self.client, verb, message, extras).await
    }

    async fn send_on(
        &self,
        client: &Client,
        verb: Verb,
        message: Bytes,
        extras: Extras,
    ) -> Result<Result<Bytes, Status>, Stop> {
        let answered = client.verb(verb, message, extras).await?;
        if let Err(status) = &answered {
            self.saw(verb.title(), status);
        }
        Ok(answered)
    }

    /// A status that came back: its message has a limit.
    pub(crate) fn saw(&self, method: &str, status: &Status) {
        let mut longest = self.longest_status.lock().unwrap_or_else(PoisonError::into_inner);
        if status.message().len() > longest.0 {
            *longest = (status.message().len(), method.to_owned());
        }
    }

    /// The message of every status so far was not longer than the gateway reads.
    pub(crate) fn check_status_messages(&self) -> Result<(), Stop> {
        let longest = self.longest_status.lock().unwrap_or_else(PoisonError::into_inner);
        let (bytes, method) = &*longest;
        if *bytes > STATUS_MESSAGE_BYTES {
            return failed(format!("a status of {method} has a message of {bytes} bytes"));
        }
        Ok(())
    }

    /// A question that must be refused with this code and a message.
    pub(crate) async fn refused(&self, question: &Question, code: Code, what: &str) -> Result<(), Stop> {
        self.refused_message(question.verb, question.encode(), &[code], what).await
    }

    /// A question that must be refused as invalid, with a message that names this field.
    pub(crate) async fn refused_naming(
        &self,
        question: &Question,
        field: &str,
        what: &str,
    ) -> Result<(), Stop> {
        self.refused_message_naming(question.verb, question.encode(), field, what).await
    }

    /// The same with any message.
    pub(crate) async fn refused_message_naming(
        &self,
        verb: Verb,
        message: Bytes,
        field: &str,
        what: &str,
    ) -> Result<(), Stop> {
        refused_naming(self.send(verb, message).await?, field, what)
    }

    /// A message that must be refused with one of these codes and a message.
    pub(crate) async fn refused_message(
        &self,
        verb: Verb,
        message: Bytes,
        codes: &[Code],
        what: &str,
    ) -> Result<(), Stop> {
        refused(self.send(verb, message).await?, codes, what)
    }

    /// The response to a question that must be OK, answer or miss.
    pub(crate) async fn respond(&self, question: &Question) -> Result<Response, Stop> {
        let answered = self.send(question.verb, question.encode()).await?;
        let answered = answered.map_err(|status| not_answered(question, &status))?;
        Ok(Response::decode(question.verb, &answered)?)
    }

    /// The backend still answers a verb, or the handshake.
    pub(crate) async fn still_serves(&self, after: &str) -> Result<(), Stop> {
        let asked = self.askable().next();
        let served = match asked {
            Some(terms) => self.ask(&self.random_question(terms.verb, 2)?).await.map(drop),
            None => self.handshake().await.map(drop),
        };
        served.map_err(|stop| stop.after(&format!("after {after}")))
    }

    /// The handshake with the operator's args.
    pub(crate) async fn handshake(&self) -> Result<api::GetInfoResponse, Stop> {
        self.handshake_on(&self.client).await
    }

    /// The same on this connection.
    pub(crate) async fn handshake_on(&self, client: &Client) -> Result<api::GetInfoResponse, Stop> {
        Ok(self.declared_on(client).await?.info)
    }

    /// The same with what is made of its bytes.
    pub(crate) async fn declared_on(&self, client: &Client) -> Result<Declared, Stop> {
        let answered = client.info(&self.target.info_request()).await?;
        answered.map_err(|status| Stop::refused("GetInfo", &status))
    }

    fn count(&self, verb: Verb, answer: &Answer) {
        let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let counted = verdicts.entry(verb).or_default();
        for verdict in &answer.verdicts {
            let kind = match verdict {
                Verdict::Accepted => "accepted",
                Verdict::Rejected { .. } => "rejected",
                Verdict::Scored(0) => "scored 0",
                Verdict::Scored(_) => "scored otherwise",
                Verdict::NoOpinion => "without a score",
                Verdict::Evicting(..) => "kept",
                Verdict::Spared => "dropped",
                Verdict::Changed(_) => "changed",
                Verdict::Unchanged => "unchanged",
            };
            *counted.entry(kind).or_default() += 1;
        }
        if verb == Verb::BeforeFilter {
            let kind = if answer.pod.is_some() { "changed" } else { "unchanged" };
            *counted.entry(kind).or_default() += 1;
        }
    }

    /// Verbs that gave all nodes, or pods, the same kind of verdict, so that comparing their answers proves little.
    pub(crate) fn uniform(&self) -> Vec<String> {
        let verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
        let uniform = verdicts.iter().filter(|(_, kinds)| kinds.len() == 1);
        let texts = uniform.filter_map(|(verb, kinds)| {
            let (kind, count) = kinds.first_key_value()?;
            let what = if verb.has_nodes() { "nodes" } else { "pods" };
            Some(format!("{}: all {count} {what} were {kind}", verb.name()))
        });
        texts.collect()
    }
}

/// The answer to a question, if the response keeps the rules for one.
pub(crate) fn answer(question: &Question, response: &[u8]) -> Result<Answer, Stop> {
    Ok(answer::answer(question, Response::decode(question.verb, response)?)?)
}

/// Whether a backend asks for the args.
pub(crate) fn is_args_unknown(status: &Status) -> bool {
    let name = api::ErrorReason::ArgsUnknown.as_str_name();
    status.code() == Code::FailedPrecondition && reason(status) == Some(name)
}

/// A status has this reason, if it is one.
pub(crate) fn reasoned<T>(
    answered: Result<T, Status>,
    expected: api::ErrorReason,
    what: &str,
) -> Result<(), Stop> {
    let expected = expected.as_str_name();
    match answered {
        Err(status) if reason(&status) != Some(expected) => {
            let given = reason(&status).unwrap_or("no `extender-reason`");
            failed(format!("{what}: {} with {given}; expected {expected}", code_name(status.code())))
        }
        _ => Ok(()),
    }
}

pub(crate) fn not_answered(question: &Question, status: &Status) -> Stop {
    let method = question.verb.title();
    let nodes = question.verb.has_nodes().then(|| format!(" about {}", counted(question.count())));
    let about = nodes.unwrap_or_default();
    let refused = format!("{method}{about} was refused: {}", shown(status));
    match status.code() {
        Code::Internal | Code::Unknown if status.source().is_none() => {
            let text = format!("{refused}; that is an error in the policy's own code (SPEC.md 49)");
            Stop::Failed(text).of(method, "10.1")
        }
        _ => Stop::Failed(refused),
    }
}

/// What came back must be that the request is invalid, with a message that names this field.
pub(crate) fn refused_naming<T>(answered: Result<T, Status>, field: &str, what: &str) -> Result<(), Stop> {
    let unnamed = answered.as_ref().err().filter(|status| !status.message().contains(field)).map(shown);
    refused(answered, &[Code::InvalidArgument], what)?;
    unnamed.map_or(Ok(()), |status| failed(format!("{what}: {status}; it does not name `{field}`")))
}

/// What came back must be one of these codes, with a message.
pub(crate) fn refused<T>(answered: Result<T, Status>, codes: &[Code], what: &str) -> Result<(), Stop> {
    let expected: Vec<_> = codes.iter().map(|code| code_name(*code)).collect();
    let expected = expected.join(" or ");
    match answered {
        Ok(_) => failed(format!("{what}: OK; expected {expected}")),
        Err(status) if !codes.contains(&status.code()) => {
            failed(format!("{what}: {}; expected {expected}", shown(&status)))
        }
        Err(status) if status.message().is_empty() => {
            failed(format!("{what}: {} without a message", code_name(status.code())))
        }
        Err(_) => Ok(()),
    }
}
