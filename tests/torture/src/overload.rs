//! Five times as many calls as the gateway can decide, and a caller that sends them beside one that does not.

use std::{
    collections::BTreeMap,
    fmt::{self, Write as _},
    io::{self, Write as _},
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    runtime,
    task::{JoinHandle, JoinSet, spawn_blocking},
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use crate::{
    Failure,
    caller::{Connection, Outcome, Template},
    honest::quantile,
    slow::Pace,
    stage::{LONG, NODES, OFFERED, Stage, open_files},
};

/// The callers that are enough to use the whole capacity, each with one call at a time.
const ENOUGH: usize = 8;
/// How many times the capacity is offered.
const TIMES: f64 = 5.0;
/// How many descriptors a process has for each connection: the gateway takes connections for half of its own.
const DESCRIPTORS_OF_A_CONNECTION: usize = 3;
const MODEST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const GREEDY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

/// The calls of a measurement.
#[derive(Debug, Clone, Copy)]
struct Load {
    /// The names of nodes in each call.
    names: usize,
    budget: Duration,
    /// The most connections of the caller that offers too many. kube-scheduler has a few.
    connections: usize,
    /// That of the policy, if it is slower than the gateway.
    pace: Option<Pace>,
}

/// Small calls with a budget with which all of these connections wait, and with one with which most are refused; large
/// calls with the default budget, of which those of so many connections are refused now and then, or nearly all; and small
/// ones about which a slow policy is asked.
const LOADS: [Load; 6] = [
    Load::of(OFFERED, LONG, 1_500),
    Load::of(OFFERED, Duration::from_millis(400), 1_500),
    Load::of(NODES, Duration::from_secs(1), 400),
    Load::of(NODES, Duration::from_secs(1), 1_500),
    Load::of(OFFERED, Duration::from_secs(1), 1_500).at(4, Duration::from_millis(10)),
    Load::of(OFFERED, Duration::from_secs(1), 1_500).at(1, Duration::from_millis(20)),
];
/// The least part of the capacity that is decided: of the gateway's, whose time refusals take, too, and of a slow policy's.
const LEAST_GOODPUT: f64 = 0.5;
const LEAST_GOODPUT_OF_POLICY: f64 = 0.9;
/// The latest that a refusal by a slow policy, and that 99 of 100 calls of another caller are.
const REFUSED_WITHIN: Duration = Duration::from_millis(10);
const LATEST: Duration = Duration::from_millis(20);
/// The same beside large calls, each of which takes as long as ten small ones.
const LATEST_BESIDE_LARGE: Duration = Duration::from_millis(100);

/// What was measured.
#[derive(Debug)]
pub(crate) struct Overload {
    load: Load,
    /// Calls decided in a second with enough callers, and with too many.
    capacity: f64,
    offered: f64,
    goodput: f64,
    decided: Vec<Duration>,
    refused: Vec<Duration>,
    /// Calls that ended in another way, by how.
    failed: Failures,
    /// Calls of the modest caller, alone and beside the greedy one.
    alone: Vec<Duration>,
    beside: Vec<Duration>,
    modest_failed: usize,
}

/// Of a text about how a call ended so many characters are shown.
const LONGEST: usize = 160;

/// How often calls ended in each of these ways.
type Failures = BTreeMap<String, usize>;

/// The calls of one caller.
#[derive(Debug, Default)]
struct Counted {
    decided: Vec<Duration>,
    refused: Vec<Duration>,
    failed: Failures,
}

impl Counted {
    fn add(&mut self, outcome: Outcome, took: Duration) {
        match outcome {
            Outcome::Decided => self.decided.push(took),
            Outcome::Refused => self.refused.push(took),
            Outcome::Error(how) | Outcome::Failed(how) => {
                // Times and ports differ from call to call.
                let how = how.chars().take(LONGEST).map(|c| if c.is_ascii_digit() { '#' } else { c });
                *self.failed.entry(how.collect()).or_default() += 1;
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.decided.extend(other.decided);
        self.refused.extend(other.refused);
        self.add_failures(other.failed);
    }

    fn add_failures(&mut self, failures: Failures) {
        for (how, count) in failures {
            *self.failed.entry(how).or_default() += count;
        }
    }

    /// The number of calls that were not decided.
    fn undecided(&self) -> usize {
        self.refused.len() + self.failed.values().sum::<usize>()
    }
}

/// Measures each situation whose name has this text for this long; none if that is no time.
pub(crate) fn measure(each: Duration, only: &str) -> Result<Vec<Overload>, Failure> {
    let loads = LOADS.into_iter().map(|load| (load, format!("overload: {load}")));
    let measured = |(load, name)| {
        let _ = writeln!(io::stderr(), "{name} ...");
        measured(load, each)
    };
    loads.filter(|(_, name)| !each.is_zero() && name.contains(only)).map(measured).collect()
}

fn measured(load: Load, each: Duration) -> Result<Overload, Failure> {
    let stage = Stage::set(load.budget, load.names, load.pace)?;
    let template = Arc::new(Template::new(&stage.all_different)?);
    let address = stage.gateway.extender;
    runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        // The first calls fill caches.
        closed(address, &template, ENOUGH, each / 4).await;
        let capacity = closed(address, &template, ENOUGH, each).await;
        let capacity = rate(capacity.decided.len(), each);
        let (offered, mut all) = open(address, &template, (capacity * TIMES, load.connections), each).await;
        let alone = closed(address, &template, 1, each).await;
        let beside = another_caller(address, &template, each);
        let greedy = open(address, &template, (capacity * TIMES, load.connections), each).await;
        let beside = beside.await.unwrap_or_default();
        let modest_failed = alone.undecided() + beside.undecided();
        all.add_failures(greedy.1.failed);
        Ok(Overload {
            load,
            capacity,
            offered: rate(offered, each),
            goodput: rate(all.decided.len(), each),
            decided: all.decided,
            refused: all.refused,
            failed: all.failed,
            alone: alone.decided,
            modest_failed,
            beside: beside.decided,
        })
    })
}

#[expect(clippy::cast_precision_loss, reason = "thousands of calls")]
fn rate(calls: usize, each: Duration) -> f64 {
    calls as f64 / each.as_secs_f64()
}

/// Calls of so many callers, each of which sends the next one when it has an answer.
async fn closed(address: SocketAddr, template: &Arc<Template>, callers: usize, each: Duration) -> Counted {
    let until = Instant::now() + each;
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let template = Arc::clone(template);
        tasks.spawn(async move {
            let (mut counted, mut connection) = (Counted::default(), None);
            while Instant::now() < until {
                let begun = Instant::now();
                let outcome = call(&mut connection, (MODEST, address), &template).await;
                counted.add(outcome, begun.elapsed());
            }
            counted
        });
    }
    collected(tasks).await
}

/// The calls of one caller, which begin after this time, on a thread of its own: the greedy caller keeps its own busy, and
/// an answer would wait there to be seen.
fn another_caller(address: SocketAddr, template: &Arc<Template>, each: Duration) -> JoinHandle<Counted> {
    let template = Arc::clone(template);
    spawn_blocking(move || {
        let Ok(own) = runtime::Builder::new_current_thread().enable_all().build() else {
            return Counted::default();
        };
        own.block_on(async {
            sleep(each).await;
            closed(address, &template, 1, each).await
        })
    })
}

/// This many calls a second, whether earlier ones are answered or not; also how many that were. What is answered in the
/// first half is not counted: it has the work of opening all connections.
async fn open(
    address: SocketAddr,
    template: &Arc<Template>,
    (rate, connections): (f64, usize),
    each: Duration,
) -> (usize, Counted) {
    let (counted_from, until) = (each, each * 2);
    let most = connections.min(open_files() / DESCRIPTORS_OF_A_CONNECTION);
    let (begun, idle) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let (mut tasks, mut counted, mut offered, mut sent) = (JoinSet::new(), Counted::default(), 0, 0);
    let mut ticks = interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while begun.elapsed() < until {
        ticks.tick().await;
        while let Some(ended) = tasks.try_join_next() {
            counted.merge(ended.unwrap_or_default());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousands of calls")]
        let due = (begun.elapsed().as_secs_f64() * rate) as usize;
        // What could not be sent in time, for lack of connections, is not made up for.
        offered = offered.max(due.saturating_sub(connections));
        while offered < due && tasks.len() < most {
            offered += 1;
            sent += usize::from(begun.elapsed() >= counted_from);
            let (template, idle) = (Arc::clone(template), Arc::clone(&idle));
            tasks.spawn(async move {
                let taken = || idle.lock().unwrap_or_else(PoisonError::into_inner);
                let mut connection: Option<Connection> = taken().pop();
                let (asked, mut counted) = (Instant::now(), Counted::default());
                let outcome = call(&mut connection, (GREEDY, address), &template).await;
                // What is answered later was not decided in this time.
                let is_counted = (counted_from..until).contains(&begun.elapsed());
                if is_counted || matches!(outcome, Outcome::Error(_) | Outcome::Failed(_)) {
                    counted.add(outcome, asked.elapsed());
                }
                taken().extend(connection);
                counted
            });
        }
    }
    counted.merge(collected(tasks).await);
    (sent, counted)
}

async fn collected(mut tasks: JoinSet<Counted>) -> Counted {
    let mut all = Counted::default();
    while let Some(counted) = tasks.join_next().await {
        all.merge(counted.unwrap_or_default());
    }
    all
}

/// One call, on this connection or a new one, which stays open if it was answered.
async fn call(
    connection: &mut Option<Connection>,
    (from, to): (IpAddr, SocketAddr),
    template: &Template,
) -> Outcome {
    let opened = match connection.take() {
        Some(opened) => Ok(opened),
        None => Connection::open(from, to).await,
    };
    let mut opened = match opened {
        Ok(opened) => opened,
        Err(error) => return Outcome::Failed(format!("cannot connect: {error}")),
    };
    match opened.call(template).await {
        Ok(outcome) => {
            *connection = Some(opened);
            outcome
        }
        Err(error) => Outcome::Failed(format!("not answered: {error}")),
    }
}

impl Overload {
    /// Whether every call was decided or refused, and none of the modest caller refused. With a short budget a busy machine
    /// is too slow for that.
    pub(crate) fn is_good(&self) -> bool {
        !self.decided.is_empty() && (self.load.budget < LONG || self.has_answered_all())
    }

    /// Of large calls a few of the first burst are late: how long one takes is not known then.
    fn has_answered_all(&self) -> bool {
        let most = if self.load.is_large() { self.decided.len() / 100 } else { 0 };
        self.modest_failed == 0 && self.failed() <= most
    }

    fn failed(&self) -> usize {
        self.failed.values().sum()
    }

    /// Whether enough calls were decided, and those of the modest caller in time.
    pub(crate) fn is_in_time(&self) -> bool {
        self.has_answered_all()
            && self.goodput >= self.capacity * self.load.least_goodput()
            && (self.load.pace.is_none() || self.refused_within(REFUSED_WITHIN))
            && quantile(&self.beside, 0.99) <= self.load.latest()
    }

    /// Whether some calls were refused, and nearly all of them within this time.
    fn refused_within(&self, time: Duration) -> bool {
        !self.refused.is_empty() && quantile(&self.refused, 0.99) <= time
    }

    fn row(&self) -> String {
        format!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} % | {} | {} | {} |",
            self.load,
            self.capacity,
            self.offered,
            self.goodput,
            self.goodput / self.capacity * 100.0,
            milliseconds(&self.decided),
            milliseconds(&self.refused),
            self.failed(),
        )
    }

    fn row_of_another_caller(&self) -> String {
        format!(
            "| {} | {} | {} | {} | {} | {} |",
            self.load,
            self.alone.len(),
            milliseconds(&self.alone),
            self.beside.len(),
            milliseconds(&self.beside),
            self.modest_failed,
        )
    }
}

impl Load {
    const fn of(names: usize, budget: Duration, connections: usize) -> Self {
        Self { names, budget, connections, pace: None }
    }

    /// The same, asking a policy that answers so many calls at a time, each after this time.
    const fn at(self, at_a_time: usize, work: Duration) -> Self {
        Self { pace: Some(Pace { at_a_time, work }), ..self }
    }

    fn is_large(self) -> bool {
        self.names > OFFERED
    }

    fn least_goodput(self) -> f64 {
        if self.pace.is_some() { LEAST_GOODPUT_OF_POLICY } else { LEAST_GOODPUT }
    }

    fn latest(self) -> Duration {
        match self.pace {
            Some(_) => self.budget,
            None if self.is_large() => LATEST_BESIDE_LARGE,
            None => LATEST,
        }
    }
}

impl fmt::Display for Load {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { names, budget, connections, pace } = self;
        write!(out, "{names} names, {} ms, {connections}", budget.as_millis())?;
        let Some(Pace { at_a_time, work }) = pace else { return Ok(()) };
        write!(out, ", {at_a_time} in {} ms", work.as_millis())
    }
}

/// The median and the 99th percentile.
fn milliseconds(times: &[Duration]) -> String {
    if times.is_empty() {
        return "–".to_owned();
    }
    let ms = |share| quantile(times, share).as_secs_f64() * 1_000.0;
    format!("{:.2}, {:.2}", ms(0.5), ms(0.99))
}

pub(crate) fn table(measured: &[Overload]) -> String {
    let mut table = String::from(
        "\n| overload, 5 times: calls, budget, connections | capacity/s | offered/s | decided/s | of capacity | decided p50, p99 ms | refused p50, p99 ms | other |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let rows = |row: fn(&Overload) -> String| measured.iter().map(row).collect::<Vec<_>>().join("\n") + "\n";
    table += &rows(Overload::row);
    table += "\n| another caller, one call at a time: beside calls, budget, connections | alone | p50, p99 ms | beside | p50, p99 ms | not decided |\n\
              |---|---|---|---|---|---|\n";
    table += &rows(Overload::row_of_another_caller);
    for Overload { load, failed, .. } in measured {
        for (how, count) in failed {
            // Writing to a `String` does not fail.
            let _ = writeln!(table, "\n{load}: {count} calls: {how}");
        }
    }
    table
}
