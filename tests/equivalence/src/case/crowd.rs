//! Concurrent callers that bring different objects of the same nodes.

use extender_reference::model::Node;
use serde::{Deserialize, Serialize};

use super::{Case, KNOWN, Placing, Sibling, World};

/// Several callers, and in which order the backends answer them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Crowd {
    /// The callers. All of them begin before any backend answers.
    pub callers: Vec<Caller>,
    /// Of the waiting requests, the one with the lowest rank is answered next. A request has its rank by backend
    /// and pod.
    pub ranks: Vec<u8>,
}

/// A caller, for example one of two schedulers: it filters a pod and then prioritizes what is left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Its pod.
    pub sibling: Sibling,
    /// The nodes that it brings in full.
    pub offered: Vec<Node>,
    /// How many changes of each node's state it has seen.
    pub ahead: [usize; KNOWN],
}

impl Crowd {
    /// The rank of a request to this backend about this pod.
    pub fn rank(&self, backend: usize, pod: usize) -> u8 {
        let place = (pod * 5 + backend) % self.ranks.len().max(1);
        self.ranks.get(place).copied().unwrap_or_default()
    }
}

impl Case {
    /// The pods of the callers, after the others.
    pub fn crowded(&self) -> Vec<Placing<'_>> {
        let others = self.placings();
        let world = others.last().map_or_else(|| self.world(), |last| last.scoring.clone());
        let callers = (others.len()..).zip(&self.crowd.callers);
        callers.map(|(number, caller)| self.placing_of(caller, (number, world.clone()))).collect()
    }

    fn placing_of<'c>(&self, caller: &'c Caller, (number, mut seen): (usize, World)) -> Placing<'c> {
        for (state, ahead) in seen.states.iter_mut().zip(caller.ahead) {
            *state += ahead;
        }
        let (pod, offered) = (self.sibling(&caller.sibling), &caller.offered);
        Placing { number, round: None, pod, offered, filtering: seen.clone(), scoring: seen }
    }

    /// Callers bring existing nodes, and at least one backend needs data about them.
    pub(super) fn settle_crowd(&mut self) {
        if self.source == super::Source::NamesOnly {
            self.crowd.callers.clear();
        }
        for caller in &mut self.crowd.callers {
            caller.offered.retain(|node| *node < KNOWN);
        }
    }
}
