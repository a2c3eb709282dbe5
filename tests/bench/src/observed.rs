//! The gateway's cost of observability: the same calls to three gateways with different settings.
//!
//! It is some hundredths of a call, too little for noisy latencies, and much of it is spent after the response. So
//! processor time is compared: all of a gateway's from the beginning of one of its turns to that of its next one,
//! including what is sent to the collector meanwhile.

mod sink;

use std::time::Instant;

use extender_harness::{
    gateway::{Gateway, GatewayError, Observability},
    policy::Policy,
};
use serde::Serialize;

use self::sink::Sink;
use crate::{
    case::{Case, Form, Offers},
    contender::{Contender, Extender, Failure, Keeps},
    measure::ROUND_AT_LEAST,
    pods::Pods,
    stage::{Role, Stage, gateway, policies},
    statistics::Spread,
    usage::Usage,
};

/// The most processor time of a call, as a multiple of that of the gateway without observability.
pub const BUDGET: f64 = 1.05;

/// How much a gateway records of its calls; the others are compared with the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Nothing,
    OnePercent,
    All,
}

/// The gateways with policies of one role.
#[derive(Debug)]
struct Gateways {
    role: Role,
    all: Vec<Gateway>,
    _policies: [Policy; 3],
}

/// Everything that runs for the comparison. It ends when this is dropped.
#[derive(Debug)]
pub struct Observed {
    sink: Sink,
    gateways: Vec<Gateways>,
}

/// The results of one case.
#[derive(Debug, Clone, Serialize)]
pub struct Comparison {
    /// For example "filter 420 names, per node".
    pub case: String,
    /// The gateway without observability first.
    pub columns: Vec<Column>,
}

/// The cost of a call for one of the gateways.
#[derive(Debug, Clone, Serialize)]
pub struct Column {
    /// What it records.
    pub name: &'static str,
    /// Processor time of a call in microseconds, by round.
    pub processor: Spread,
    /// The ratio to the gateway without observability, round by round.
    pub ratio: Spread,
}

impl Shown {
    const ALL: [Self; 3] = [Self::Nothing, Self::OnePercent, Self::All];

    fn label(self) -> &'static str {
        match self {
            Self::Nothing => "nothing observed",
            Self::OnePercent => "log, metrics, 1 % of traces",
            Self::All => "log, metrics, all traces",
        }
    }

    fn observability(self, sink: &Sink) -> Observability {
        let sent = |ratio| Observability::Sent { collector: sink.address, ratio };
        match self {
            Self::Nothing => Observability::Off,
            Self::OnePercent => sent(0.01),
            Self::All => sent(1.0),
        }
    }
}

impl Observed {
    /// Starts everything that the stage does not have.
    ///
    /// # Errors
    ///
    /// A process does not start.
    pub fn start(stage: &Stage) -> Result<Self, Failure> {
        let sink = Sink::start()?;
        let roles = [Role::Warm, Role::Node].into_iter();
        let gateways = roles.map(|role| Gateways::start(role, stage, &sink)).collect::<Result<_, _>>()?;
        Ok(Self { sink, gateways })
    }

    /// Whether a case is one of those that are compared: those with the number of nodes that kube-scheduler offers
    /// of 1,000.
    pub fn is_about(case: &Case) -> bool {
        case.form == Form::Names && case.nodes == 420
    }

    /// Compares all gateways in a case.
    ///
    /// # Errors
    ///
    /// An answer is wrong, or nothing was sent to the collector.
    pub fn compare(
        &self,
        (case, offers, pods): (&Case, &Offers, &Pods),
        rounds: usize,
    ) -> Result<Vec<Comparison>, Failure> {
        let before = self.sink.spans();
        let compared: Result<_, Failure> = self
            .gateways
            .iter()
            .map(|gateways| {
                let label = format!("{}, {}", case.label(), gateways.role.label());
                Ok(Comparison::new(label, &gateways.measure((case, offers, pods), rounds)?))
            })
            .collect();
        if self.sink.spans() == before {
            return Err("no span has come to the collector".into());
        }
        compared
    }
}

impl Gateways {
    fn start(role: Role, stage: &Stage, sink: &Sink) -> Result<Self, Failure> {
        let policies = policies(role)?;
        let start = |shown: Shown| {
            let file = stage.folder().join(format!("{role:?}-{shown:?}.yaml"));
            gateway(&policies, stage.nodes(), shown.observability(sink), &file)
        };
        let all = Shown::ALL.into_iter().map(start).collect::<Result<_, GatewayError>>()?;
        Ok(Self { role, all, _policies: policies })
    }

    /// Microseconds per call of each gateway, by round.
    ///
    /// Each second round is reversed: what one gateway still sends after its turn does not always disturb the same
    /// other one.
    fn measure(
        &self,
        (case, offers, pods): (&Case, &Offers, &Pods),
        rounds: usize,
    ) -> Result<Vec<Vec<f64>>, Failure> {
        let mut subjects = Vec::new();
        for gateway in &self.all {
            let mut extender = Extender::open(gateway.extender, Keeps::Survivors)?;
            extender.warm_up(case, offers, pods)?;
            subjects.push(Subject { extender, process: gateway.process.id(), turn: None, costs: Vec::new() });
        }
        for round in 0..rounds {
            for at in 0..subjects.len() {
                let at = if round % 2 == 0 { at } else { subjects.len() - 1 - at };
                subjects[at].take_turn(case, offers, pods)?;
            }
        }
        subjects.iter_mut().try_for_each(Subject::end_turn)?;
        Ok(subjects.into_iter().map(|subject| subject.costs).collect())
    }
}

/// A gateway that is being measured.
struct Subject {
    extender: Extender,
    process: u32,
    /// Its usage at the beginning of its latest turn, and the calls since then.
    turn: Option<(Usage, usize)>,
    costs: Vec<f64>,
}

impl Subject {
    fn take_turn(&mut self, case: &Case, offers: &Offers, pods: &Pods) -> Result<(), Failure> {
        self.end_turn()?;
        let (used, begin, mut calls) = (Usage::of(&[self.process])?, Instant::now(), 0);
        while calls < case.calls || begin.elapsed() < ROUND_AT_LEAST {
            self.extender.call(case.verb, &offers.question(pods, calls))?;
            calls += 1;
        }
        self.turn = Some((used, calls));
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of one run are far below 2^52")]
    fn end_turn(&mut self) -> Result<(), Failure> {
        let Some((before, calls)) = self.turn.take() else { return Ok(()) };
        let used = Usage::of(&[self.process])? - before;
        self.costs.push(used.processor as f64 / calls as f64);
        Ok(())
    }
}

impl Comparison {
    /// From the cost of a call for each gateway, by round.
    fn new(case: String, costs: &[Vec<f64>]) -> Self {
        let column = |(shown, own): (Shown, &Vec<f64>)| Column {
            name: shown.label(),
            processor: Spread::of(own.iter().copied()),
            ratio: Spread::of(own.iter().zip(&costs[0]).map(|(own, base)| own / base)),
        };
        Self { case, columns: Shown::ALL.into_iter().zip(costs).map(column).collect() }
    }
}
