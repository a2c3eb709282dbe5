//! The report as tables of at most 120 columns. Lines of the first are printed as soon as they are measured.

use std::fmt::{self, Display, Formatter};

use super::{Column, Cost, Line};
use crate::{
    fleet::{FleetColumn, FleetReport},
    observed::{self, Comparison},
};

/// A part of the report, as text.
#[derive(Debug, Clone, Copy)]
pub enum Table<'a> {
    /// The head of [`Table::Latency`].
    LatencyHead(&'a Line),
    /// The latency of one case's calls.
    Latency(&'a Line),
    /// The head of [`Table::Ratios`].
    RatiosHead(&'a Line),
    /// The comparison with the floor and three empty gRPC calls.
    Ratios(&'a Line),
    /// The head of [`Table::Costs`].
    CostsHead(&'a Line),
    /// The cost of one case's calls.
    Costs(&'a Line),
    /// The head of [`Table::Observed`].
    ObservedHead(&'a Comparison),
    /// The cost of observability in one case.
    Observed(&'a Comparison),
    /// A large cluster with many policies.
    Fleet(&'a FleetReport),
}

impl Display for Table<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::LatencyHead(line) => head(out, "microseconds, p50", &line.columns),
            Self::Latency(line) => cells(out, &line.case, &line.columns, p50),
            Self::RatiosHead(line) => head(out, "of floor + 3 empty gRPC", gateway(line)),
            Self::Ratios(line) => cells(out, &line.case, gateway(line), ratio),
            Self::CostsHead(line) => head(out, "CPU µs / switches a call", gateway(line)),
            Self::Costs(line) => costs(out, line),
            Self::ObservedHead(comparison) => {
                observed(out, "CPU µs a call", &comparison.columns, |column| column.name.to_owned())
            }
            Self::Observed(comparison) => observed(out, &comparison.case, &comparison.columns, |column| {
                let (processor, ratio) = (column.processor.median, column.ratio);
                format!("{processor:.0}, {:.3} ({:.2}-{:.2})", ratio.median, ratio.least, ratio.largest)
            }),
            Self::Fleet(report) => fleet(out, report),
        }
    }
}

/// The columns that have ratios.
fn gateway(line: &Line) -> &[Column] {
    let first = line.columns.iter().position(|column| column.ratio_to_floor.is_some());
    &line.columns[first.unwrap_or(line.columns.len())..]
}

fn head(out: &mut Formatter<'_>, title: &str, columns: &[Column]) -> fmt::Result {
    cells(out, title, columns, |column| column.name.to_owned())
}

#[expect(clippy::cast_precision_loss, reason = "memory is far below 2^52 bytes")]
fn fleet(out: &mut Formatter<'_>, report: &FleetReport) -> fmt::Result {
    let FleetReport { nodes, policies, columns } = report;
    writeln!(
        out,
        "{:<36}{:>20}{:>20}{:>20}",
        format!("filter {nodes} names, {policies} policies"),
        "ms, p50",
        "ms, p99",
        "MB (peak)"
    )?;
    columns.iter().try_for_each(|FleetColumn { name, p50, p99, memory }| {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let memory = format!("{:.0} ({:.0})", megabytes(memory.resident), megabytes(memory.peak));
        writeln!(out, "{name:<36}{:>20.2}{:>20.2}{memory:>20}", p50 / 1e3, p99 / 1e3)
    })
}

fn cells(
    out: &mut Formatter<'_>,
    title: &str,
    columns: &[Column],
    cell: impl Fn(&Column) -> String,
) -> fmt::Result {
    write!(out, "{title:<36}")?;
    let width = width(columns);
    columns.iter().try_for_each(|column| write!(out, "{:>width$}", cell(column)))?;
    writeln!(out)
}

fn observed(
    out: &mut Formatter<'_>,
    title: &str,
    columns: &[observed::Column],
    cell: impl Fn(&observed::Column) -> String,
) -> fmt::Result {
    write!(out, "{title:<30}")?;
    columns.iter().try_for_each(|column| write!(out, "{:>29}", cell(column)))?;
    writeln!(out)
}

/// More columns are narrower.
fn width(columns: &[Column]) -> usize {
    if columns.len() > 4 { 13 } else { 20 }
}

fn p50(column: &Column) -> String {
    format!("{:.0}", column.p50)
}

fn ratio(column: &Column) -> String {
    column.ratio_to_floor_and_calls.map_or_else(String::new, |ratio| {
        format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.least, ratio.largest)
    })
}

/// A line for each group of processes.
fn costs(out: &mut Formatter<'_>, line: &Line) -> fmt::Result {
    let groups = gateway(line).first().map_or(&[][..], |column| &column.cost);
    groups.iter().enumerate().try_for_each(|(at, group)| {
        let title = format!("{}, {}", line.case, group.of);
        cells(out, &title, gateway(line), |column| cost(&column.cost[at]))
    })
}

fn cost(cost: &Cost) -> String {
    format!("{:.0} / {:.1}", cost.processor, cost.switches())
}
