//! Calls all contenders in turn, round by round, so that disturbances of the machine affect all of them.

use std::time::{Duration, Instant};

use crate::{
    case::{Case, Offers},
    contender::{Contender, Failure},
    pods::Pods,
    statistics::percentile,
    usage::Usage,
};

/// The minimum length of a round: a few milliseconds of a fast contender would show more about the system's
/// placement of threads than about the contender.
pub(crate) const ROUND_AT_LEAST: Duration = Duration::from_millis(200);

/// A contender, and the processes that work for it.
pub struct Entrant<'a> {
    /// The contender.
    pub contender: &'a mut dyn Contender,
    /// The pods of its calls.
    pub pods: &'a Pods,
    /// Processes whose cost is measured, in groups that are added up: the group's name, and its processes.
    pub processes: Vec<(&'static str, Vec<u32>)>,
}

/// The results of one of them.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The median of each round, in microseconds.
    pub round_medians: Vec<f64>,
    /// Every call, in microseconds, sorted.
    pub latencies: Vec<f64>,
    /// What each group of processes used during the rounds of this contender.
    pub usage: Vec<(&'static str, Usage)>,
}

/// Runs the rounds. The answers are in the order of the entrants.
pub fn measure(
    case: &Case,
    offers: &Offers,
    rounds: usize,
    entrants: &mut [Entrant<'_>],
) -> Result<Vec<Series>, Failure> {
    for entrant in &mut *entrants {
        entrant.contender.warm_up(case, offers, entrant.pods)?;
    }
    let mut series: Vec<Series> = entrants.iter().map(Series::of).collect();
    for _ in 0..rounds {
        for (entrant, series) in entrants.iter_mut().zip(&mut series) {
            series.add_round(entrant, case, offers)?;
        }
    }
    for series in &mut series {
        series.latencies.sort_by(f64::total_cmp);
    }
    Ok(series)
}

impl Series {
    fn of(entrant: &Entrant<'_>) -> Self {
        let usage = entrant.processes.iter().map(|(group, _)| (*group, Usage::default()));
        Self { usage: usage.collect(), ..Self::default() }
    }

    fn add_round(&mut self, entrant: &mut Entrant<'_>, case: &Case, offers: &Offers) -> Result<(), Failure> {
        let before = used(&entrant.processes)?;
        let (begin, mut latencies) = (Instant::now(), Vec::with_capacity(case.calls));
        while latencies.len() < case.calls || begin.elapsed() < ROUND_AT_LEAST {
            // Counted over all rounds, so that a round does not begin with the pod of the one before.
            let number = self.latencies.len() + latencies.len();
            let question = offers.question(entrant.pods, number);
            let start = Instant::now();
            entrant.contender.call(case.verb, &question)?;
            latencies.push(start.elapsed().as_secs_f64() * 1e6);
        }
        for (((_, sum), before), after) in self.usage.iter_mut().zip(before).zip(used(&entrant.processes)?) {
            *sum += after - before;
        }
        latencies.sort_by(f64::total_cmp);
        self.round_medians.push(percentile(&latencies, 50));
        self.latencies.append(&mut latencies);
        Ok(())
    }
}

fn used(groups: &[(&str, Vec<u32>)]) -> Result<Vec<Usage>, Failure> {
    groups.iter().map(|(_, processes)| Usage::of(processes).map_err(Failure::from)).collect()
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use extender_harness::{
        node::{Images, nodes},
        request::Verb,
    };

    use super::*;
    use crate::case::{Form, Question};

    /// Records when it is called.
    struct Diarist(char, Rc<RefCell<String>>);

    impl Contender for Diarist {
        fn call(&mut self, _: Verb, _: &Question<'_>) -> Result<(), Failure> {
            self.1.borrow_mut().push(self.0);
            Ok(())
        }

        fn warm_up(&mut self, _: &Case, _: &Offers, _: &Pods) -> Result<(), Failure> {
            self.1.borrow_mut().push(self.0.to_ascii_lowercase());
            Ok(())
        }
    }

    #[test]
    fn rounds_are_interleaved() {
        let diary = Rc::default();
        let case = Case { verb: Verb::Filter, form: Form::Names, nodes: 3, calls: 2 };
        let offers = Offers::new(&case, &nodes(0..6, Images::Few), |_| false);
        let pods = &Pods::of_deployments();
        let (mut one, mut other) = (Diarist('A', Rc::clone(&diary)), Diarist('B', Rc::clone(&diary)));
        let mut entrants = [
            Entrant { contender: &mut one, pods, processes: vec![("us", vec![std::process::id()])] },
            Entrant { contender: &mut other, pods, processes: vec![] },
        ];
        let series = measure(&case, &offers, 3, &mut entrants).unwrap();
        // The number of calls in a round depends on the machine; the minimum does not.
        let mut turns = diary.borrow().chars().collect::<Vec<_>>();
        assert!(turns.len() > 2 + 3 * 2 * case.calls);
        turns.dedup();
        assert_eq!(turns.iter().collect::<String>(), "abABABAB");
        assert_eq!(series[0].round_medians.len(), 3);
        assert_eq!((series[0].usage.len(), series[1].usage.len()), (1, 0));
    }
}
