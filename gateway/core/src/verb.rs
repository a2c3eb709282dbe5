//! The verbs of a scheduler extender.

use std::ops::{Index, IndexMut};

/// The verbs of kube-scheduler's extender API. The policy API has a verb for each; prioritize is called score
/// there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Which nodes a pod may run on.
    Filter,
    /// How good nodes are for a pod.
    Prioritize,
    /// Which pods may be evicted for a pod.
    Preempt,
    /// Bind a pod to a node.
    Bind,
}

impl Verb {
    /// All verbs, in the order in which kube-scheduler uses them.
    pub const ALL: [Self; 4] = [Self::Filter, Self::Prioritize, Self::Preempt, Self::Bind];

    /// The name in kube-scheduler's extender configuration, in paths, metrics of calls and the decision log.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
        }
    }

    /// The name in the policy API, in the settings and metrics of backends.
    pub const fn backend_name(self) -> &'static str {
        match self {
            Self::Prioritize => "score",
            Self::Filter | Self::Preempt | Self::Bind => self.name(),
        }
    }

    /// The name of a verb, or `none` for a request whose path names none.
    pub fn name_or_none(verb: Option<Self>) -> &'static str {
        verb.map_or("none", Self::name)
    }

    /// The verb with this [`Verb::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// The verb with this [`Verb::backend_name`].
    pub fn named_by_backend(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.backend_name() == name)
    }
}

/// A value for each verb.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerVerb<T> {
    /// For filter.
    pub filter: T,
    /// For prioritize.
    pub prioritize: T,
    /// For preempt.
    pub preempt: T,
    /// For bind.
    pub bind: T,
}

impl<T> PerVerb<T> {
    /// The value that `make` gives each verb.
    pub fn from_fn(mut make: impl FnMut(Verb) -> T) -> Self {
        Self {
            filter: make(Verb::Filter),
            prioritize: make(Verb::Prioritize),
            preempt: make(Verb::Preempt),
            bind: make(Verb::Bind),
        }
    }

    /// Each verb and its value.
    pub fn iter(&self) -> impl Iterator<Item = (Verb, &T)> {
        Verb::ALL.into_iter().map(|verb| (verb, &self[verb]))
    }
}

impl<T> Index<Verb> for PerVerb<T> {
    type Output = T;

    fn index(&self, verb: Verb) -> &T {
        match verb {
            Verb::Filter => &self.filter,
            Verb::Prioritize => &self.prioritize,
            Verb::Preempt => &self.preempt,
            Verb::Bind => &self.bind,
        }
    }
}

impl<T> IndexMut<Verb> for PerVerb<T> {
    fn index_mut(&mut self, verb: Verb) -> &mut T {
        match verb {
            Verb::Filter => &mut self.filter,
            Verb::Prioritize => &mut self.prioritize,
            Verb::Preempt => &mut self.preempt,
            Verb::Bind => &mut self.bind,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_verbs() {
        for verb in Verb::ALL {
            assert_eq!(Verb::named(verb.name()), Some(verb));
            assert_eq!(Verb::named_by_backend(verb.backend_name()), Some(verb));
            assert_eq!(PerVerb::from_fn(|verb| verb)[verb], verb);
        }
        assert_eq!((Verb::named("score"), Verb::named_by_backend("prioritize")), (None, None));
    }
}
