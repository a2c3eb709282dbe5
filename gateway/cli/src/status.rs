//! `status`: the health of every replica and its backends, and remedies.

mod render;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind, IsTerminal, Write},
    thread,
    time::Duration,
};

use clap::{Args, ValueEnum};
use extender_gateway_api::explain::replicas::{Away, Gathered};
use extender_gateway_api::{
    API_VERSION, BackendStatus, CLOCK_IMPACT, Handshake, Problem, Severity, Status, clock_difference,
};
use extender_gateway_settings::{NOT_SHOWN, changes};
use jiff::Timestamp;
use serde::Serialize;

use super::{
    admin::GatewayOptions,
    block_on,
    output::{Console, Failure, Output},
    retry::RetryOptions,
};

/// The command's description.
pub(super) const ABOUT: &str = "Show the health of the gateway and its backends, and how to fix problems.\n\n\
    All replicas are asked. For each: its version and configuration, calls by verb, backends with their handshake, failures and \
    times, nodes and pods, the decision log, and every problem with what to do about it. Replicas that differ are pointed out.\n\n\
    For scripts: the exit code is 4 when pods may not be scheduled, or a replica does not answer. Warnings alone, such as a \
    configuration that was refused, are printed and end with 0.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway status
  extender-gateway status --watch -o wide
  extender-gateway status --waiting
  extender-gateway status --retry
  extender-gateway status --gateway http://gateways.extender-gateway.svc:9403
  kubectl extender status --gateway-namespace extender-gateway --context production
  extender-gateway status -o json | jq '.replicas[].backends[] | select(.connected | not)'

Exit codes:
  0  no problem, warnings at most
  1  the answer cannot be printed
  2  the command line is wrong
  4  a problem, or a replica that does not answer, or --retry was not possible
  5  no gateway answered";

/// The time between two outputs of `--watch`.
const WATCH_PERIOD: Duration = Duration::from_secs(2);
/// Clears the screen of a terminal.
const CLEAR: &str = "\u{1b}[H\u{1b}[2J\u{1b}[3J";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct StatusOptions {
    /// Output format
    #[arg(long, short, value_enum, default_value_t = StatusOutput::Table)]
    output: StatusOutput,

    /// Print the status again every 2 seconds, until Ctrl-C
    #[arg(long, short, conflicts_with = "retry")]
    watch: bool,

    /// Print the waiting pods, by workload and reason
    #[arg(long)]
    waiting: bool,

    #[command(flatten)]
    retry: RetryOptions,

    #[command(flatten)]
    gateways: GatewayOptions,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StatusOutput {
    /// For people
    Table,
    /// For people, with the pods that each backend matches and its failure policies
    Wide,
    /// For programs
    Json,
    /// For programs, and for people who like to see all of it
    Yaml,
}

impl StatusOutput {
    fn write(self, report: &StatusReport, console: &mut Console<'_>) -> Result<(), Failure> {
        match self {
            Self::Table => Output::Table.write(report, console),
            // The alternate form has more columns.
            Self::Wide => Ok(write!(console.out, "{report:#}")?),
            Self::Json => Output::Json.write(report, console),
            Self::Yaml => Output::Yaml.write(report, console),
        }
    }
}

/// The combined status of all replicas: the output of `-o json` and `-o yaml`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusReport {
    api_version: &'static str,
    kind: &'static str,
    /// When the replicas were queried.
    time: Timestamp,
    /// The replicas that answered, by name.
    replicas: Vec<Status>,
    /// The replicas that did not answer.
    away: Vec<Away>,
    /// The differences between replicas, one sentence each.
    differences: Vec<String>,
    /// What the text shows; programs get everything.
    #[serde(skip)]
    shown: Shown,
}

/// What is printed for people.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Shown {
    /// Problems, and the state of each replica.
    #[default]
    State,
    /// Problems, and the waiting pods.
    WaitingPods,
}

/// Prints the status of all replicas.
pub(super) fn run(options: &StatusOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    block_on(options.retry.run(&options.gateways.cluster, console))??;
    let print = |console: &mut Console<'_>| options.print(&block_on(options.query())??, console);
    if options.watch { watch(print) } else { print(console) }
}

/// Prints again and again, until the reader of standard output ends.
fn watch(print: impl Fn(&mut Console<'_>) -> Result<(), Failure>) -> Result<(), Failure> {
    let start = if io::stdout().is_terminal() { CLEAR } else { "" };
    loop {
        let mut text = start.as_bytes().to_vec();
        match print(&mut Console { out: &mut text, notes: &mut io::stderr() }) {
            // It may be better the next time.
            Ok(()) | Err(Failure::Problems(_)) => {}
            Err(failure @ Failure::Away(_)) => writeln!(text, "{failure}")?,
            Err(failure) => return Err(failure),
        }
        let written = io::stdout().write_all(&text).and_then(|()| io::stdout().flush());
        match written {
            Ok(()) => thread::sleep(WATCH_PERIOD),
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

impl StatusOptions {
    fn print(&self, report: &StatusReport, console: &mut Console<'_>) -> Result<(), Failure> {
        if report.replicas.is_empty() {
            return Err(Failure::Away(report.away.clone()));
        }
        self.output.write(report, console)?;
        match report.errors() {
            0 => Ok(()),
            count => Err(Failure::Problems(count)),
        }
    }

    async fn query(&self) -> Result<StatusReport, Failure> {
        let gateways = self.gateways.reach().await?;
        let sent = Timestamp::now();
        let mut gathered = gateways.query::<Status>("/debug/status").await;
        let received = Timestamp::now();
        for status in &mut gathered.answers {
            status.problems.extend(clock_problem(status, sent, received));
        }
        let mut report = StatusReport::new(gathered, received);
        if self.waiting {
            report.shown = Shown::WaitingPods;
        }
        Ok(report)
    }
}

/// A gateway whose clock differs from that of this machine, unless it says itself that it differs from the apiserver's.
fn clock_problem(status: &Status, sent: Timestamp, received: Timestamp) -> Option<Problem> {
    const ENTRY: &str = "docs/runbook.md#clock-differs";
    let is_known = status.problems.iter().any(|problem| problem.runbook == ENTRY);
    let time = status.time.filter(|_| !is_known && sent <= received)?;
    let ahead = time.clamp(sent, received).duration_since(time).as_secs();
    Some(Problem {
        severity: Severity::Warning,
        about: "the clock".to_owned(),
        what: clock_difference(ahead, "that of the machine of this command")?,
        impact: Some(CLOCK_IMPACT.to_owned()),
        remedy: "see which of the two is wrong, and set it, for example with NTP".to_owned(),
        runbook: ENTRY.to_owned(),
    })
}

impl StatusReport {
    /// Combines the answers of the replicas.
    fn new(gathered: Gathered<Status>, now: Timestamp) -> Self {
        let Gathered { answers: mut replicas, away } = gathered;
        replicas.sort_by(|a, b| a.gateway.cmp(&b.gateway));
        let differences = ASPECTS.iter().filter_map(|aspect| difference(aspect, &replicas));
        let differences = differing_settings(&replicas).chain(differences).collect();
        Self {
            api_version: API_VERSION,
            kind: "StatusReport",
            time: now,
            replicas,
            away,
            differences,
            shown: Shown::default(),
        }
    }

    /// The problems, the most severe first, each with the replicas that report it.
    fn problems(&self) -> Vec<(&Problem, Vec<&str>)> {
        let mut groups: Vec<(&Problem, Vec<&str>)> = Vec::new();
        for status in &self.replicas {
            for problem in &status.problems {
                match groups.iter_mut().find(|(other, _)| *other == problem) {
                    Some((_, gateways)) => gateways.push(&status.gateway),
                    None => groups.push((problem, vec![&status.gateway])),
                }
            }
        }
        groups.sort_by_key(|(problem, _)| problem.severity);
        groups
    }

    /// The number of problems that prevent pods from being scheduled, including replicas that do not answer.
    fn errors(&self) -> usize {
        let problems = self.problems();
        problems.iter().filter(|(problem, _)| problem.severity == Severity::Error).count() + self.away.len()
    }
}

/// A property of a replica that should be the same for all.
struct Aspect {
    name: &'static str,
    value: fn(&Status) -> String,
}

/// The most settings in a sentence.
const MOST_SETTINGS: usize = 5;

const ASPECTS: [Aspect; 3] = [
    Aspect { name: "version", value: |status| status.version.clone() },
    Aspect {
        name: "backends or their effective order",
        value: |status| listed(status.backends.iter().map(configured)),
    },
    Aspect {
        name: "the reported versions of backends",
        value: |status| listed(status.backends.iter().filter_map(reported_version)),
    },
];

/// A sentence for each replica with another configuration than the first one: setting by setting.
fn differing_settings(replicas: &[Status]) -> impl Iterator<Item = String> {
    let others = replicas.iter().filter(|it| it.configuration.digest != replicas[0].configuration.digest);
    others.map(|other| {
        let first = &replicas[0];
        let changes = changes(&first.configuration.settings, &other.configuration.settings, MOST_SETTINGS);
        let what = if changes.is_empty() { NOT_SHOWN.to_owned() } else { changes.join("; ") };
        format!("Replicas have other configurations. From {} to {}: {what}", first.gateway, other.gateway)
    })
}

/// A sentence if the replicas differ in this property.
fn difference(Aspect { name, value }: &Aspect, replicas: &[Status]) -> Option<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for replica in replicas {
        groups.entry(value(replica)).or_default().push(&replica.gateway);
    }
    if groups.len() < 2 {
        return None;
    }
    let sides: Vec<_> =
        groups.iter().map(|(value, names)| format!("{}: {value}", names.join(", "))).collect();
    Some(format!("Replicas differ in {name}. {}", sides.join("; ")))
}

fn listed(texts: impl Iterator<Item = String>) -> String {
    let texts: Vec<_> = texts.collect();
    if texts.is_empty() { "none".to_owned() } else { texts.join(", ") }
}

fn configured(backend: &BackendStatus) -> String {
    let verbs: Vec<_> = backend.verbs.iter().map(|verb| verb.verb.as_str()).collect();
    let mode = backend.overridden.as_ref().map_or(&backend.mode, |it| &it.mode);
    format!("{} ({}, {mode}, {})", backend.name, backend.url, verbs.join(" "))
}

/// A backend without a connection is a separate problem, not a difference.
fn reported_version(backend: &BackendStatus) -> Option<String> {
    let Handshake { name, version, revision, .. } = backend.handshake.as_ref()?;
    Some(format!("{} is {name} {version} {revision}", backend.name).trim_end().to_owned())
}
