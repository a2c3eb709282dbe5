//! The report as a table of at most 100 columns. Lines are printed as soon as they are measured.

use std::fmt::{self, Display, Formatter};

use super::{Cost, Line};

/// A part of the report, as text.
#[derive(Debug, Clone, Copy)]
pub enum Table<'a> {
    /// What the columns of [`Table::Latency`] are.
    LatencyHead,
    /// How long calls of one case took.
    Latency(&'a Line),
    /// What the columns of [`Table::Costs`] are.
    CostsHead,
    /// What calls of one case cost.
    Costs(&'a Line),
}

impl Display for Table<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::LatencyHead => latency_head(out),
            Self::Latency(line) => latency(out, line),
            Self::CostsHead => costs_head(out),
            Self::Costs(line) => costs(out, line),
        }
    }
}

fn latency_head(out: &mut Formatter<'_>) -> fmt::Result {
    writeln!(
        out,
        "{:<26}{:^16}{:^16}{:>8}{:^20}{:>14}",
        "microseconds a call", "gateway", "floor (echo)", "3 empty", "gateway / floor", "gateway /"
    )?;
    writeln!(
        out,
        "{:<26}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>12}{:>14}",
        "", "p50", "p99", "p50", "p99", "gRPC", "median", "spread", "(floor+gRPC)"
    )
}

fn latency(out: &mut Formatter<'_>, line: &Line) -> fmt::Result {
    let (gateway, floor, ratio) = (&line.gateway, &line.floor, line.ratio_to_floor);
    writeln!(
        out,
        "{:<26}{:>8.0}{:>8.0}{:>8.0}{:>8.0}{:>8.0}{:>8.2}{:>12}{:>14.2}",
        line.case,
        gateway.p50,
        gateway.p99,
        floor.p50,
        floor.p99,
        line.empty_calls.p50,
        ratio.median,
        format!("{:.2}-{:.2}", ratio.least, ratio.largest),
        line.ratio_to_floor_and_calls.median
    )
}

fn costs_head(out: &mut Formatter<'_>) -> fmt::Result {
    writeln!(out, "{:<26}{:^24}{:^24}{:^24}", "a call costs", "gateway", "three policies", "floor (echo)")?;
    write!(out, "{:<26}", "")?;
    for _ in 0..3 {
        write!(out, "{:>12}{:>12}", "CPU µs", "switches")?;
    }
    writeln!(out)
}

fn costs(out: &mut Formatter<'_>, line: &Line) -> fmt::Result {
    write!(out, "{:<26}", line.case)?;
    for Cost { processor, switches, .. } in line.gateway.cost.iter().chain(&line.floor.cost) {
        write!(out, "{processor:>12.0}{switches:>12.1}")?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{report::Figures, statistics::Spread};

    #[test]
    fn the_table_fits_a_terminal_and_its_columns_align() {
        let cost = Cost { of: "us", processor: 12_345.6, switches: 123.4 };
        let figures = Figures { calls: 1, p50: 12_345.6, p99: 99_999.0, cost: vec![cost, cost] };
        let line = Line {
            case: "prioritize 500 full nodes".to_owned(),
            gateway: figures.clone(),
            floor: Figures { cost: vec![cost], ..figures.clone() },
            empty_calls: figures,
            ratio_to_floor: Spread { least: 10.0, median: 20.0, largest: 30.25 },
            ratio_to_floor_and_calls: Spread { least: 1.0, median: 2.0, largest: 3.0 },
        };
        for (head, row) in
            [(Table::LatencyHead, Table::Latency(&line)), (Table::CostsHead, Table::Costs(&line))]
        {
            let text = format!("{head}{row}");
            let widths: Vec<usize> = text.lines().map(|line| line.chars().count()).collect();
            assert!(widths.iter().all(|width| *width == widths[0] && *width <= 100), "{widths:?}\n{text}");
        }
    }
}
