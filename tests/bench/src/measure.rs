//! Asks everybody in turn, round by round, so that what the machine does meanwhile hits all of them.

use std::time::Instant;

use crate::{
    case::{Bodies, Case},
    contender::{Contender, Failure},
    statistics::percentile,
    usage::Usage,
};

/// Who is measured, and the processes that work for it.
pub struct Entrant<'a> {
    /// Who is asked.
    pub contender: &'a mut dyn Contender,
    /// Processes whose cost is looked at, in groups that are added up.
    pub processes: Vec<Vec<u32>>,
}

/// What was measured for one of them.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The median of each round, in microseconds.
    pub round_medians: Vec<f64>,
    /// Every call, in microseconds, sorted.
    pub latencies: Vec<f64>,
    /// What each group of processes has used during this one's rounds.
    pub usage: Vec<Usage>,
}

/// Runs the rounds. The answers are in the order of the entrants.
pub fn measure(
    case: &Case,
    bodies: &Bodies,
    rounds: usize,
    entrants: &mut [Entrant<'_>],
) -> Result<Vec<Series>, Failure> {
    for entrant in &mut *entrants {
        entrant.contender.warm_up(case, bodies)?;
    }
    let mut series: Vec<Series> =
        entrants.iter().map(|entrant| Series::new(entrant.processes.len())).collect();
    for round in 0..rounds {
        for (entrant, series) in entrants.iter_mut().zip(&mut series) {
            series.add_round(entrant, case, bodies, round)?;
        }
    }
    for series in &mut series {
        series.latencies.sort_by(f64::total_cmp);
    }
    Ok(series)
}

impl Series {
    fn new(groups: usize) -> Self {
        Self { usage: vec![Usage::default(); groups], ..Self::default() }
    }

    fn add_round(
        &mut self,
        entrant: &mut Entrant<'_>,
        case: &Case,
        bodies: &Bodies,
        round: usize,
    ) -> Result<(), Failure> {
        let before = used(&entrant.processes)?;
        let mut latencies = Vec::with_capacity(case.calls);
        for call in 0..case.calls {
            let start = Instant::now();
            // The first pod of a round is not the first pod of the one before.
            entrant.contender.call(case.verb, round * (case.calls + 1) + call, bodies)?;
            latencies.push(start.elapsed().as_secs_f64() * 1e6);
        }
        for ((sum, before), after) in self.usage.iter_mut().zip(before).zip(used(&entrant.processes)?) {
            *sum += after - before;
        }
        latencies.sort_by(f64::total_cmp);
        self.round_medians.push(percentile(&latencies, 50));
        self.latencies.append(&mut latencies);
        Ok(())
    }
}

fn used(groups: &[Vec<u32>]) -> Result<Vec<Usage>, Failure> {
    groups.iter().map(|processes| Usage::of(processes).map_err(Failure::from)).collect()
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use extender_harness::{
        node::{Images, nodes},
        request::Verb,
    };

    use super::*;
    use crate::case::Form;

    /// Writes down when it is asked.
    struct Diarist(char, Rc<RefCell<String>>);

    impl Contender for Diarist {
        fn call(&mut self, _: Verb, _: usize, _: &Bodies) -> Result<(), Failure> {
            self.1.borrow_mut().push(self.0);
            Ok(())
        }

        fn warm_up(&mut self, _: &Case, _: &Bodies) -> Result<(), Failure> {
            self.1.borrow_mut().push(self.0.to_ascii_lowercase());
            Ok(())
        }
    }

    #[test]
    fn rounds_are_interleaved() {
        let diary = Rc::default();
        let case = Case { verb: Verb::Filter, form: Form::Names, nodes: 3, calls: 2 };
        let bodies = Bodies::new(&case, &nodes(0..6, Images::Few), |_| false);
        let (mut one, mut other) = (Diarist('A', Rc::clone(&diary)), Diarist('B', Rc::clone(&diary)));
        let mut entrants = [
            Entrant { contender: &mut one, processes: vec![vec![std::process::id()]] },
            Entrant { contender: &mut other, processes: vec![] },
        ];
        let series = measure(&case, &bodies, 3, &mut entrants).unwrap();
        assert_eq!(*diary.borrow(), "abAABBAABBAABB");
        assert_eq!((series[0].round_medians.len(), series[0].latencies.len()), (3, 6));
        assert_eq!((series[0].usage.len(), series[1].usage.len()), (1, 0));
    }
}
