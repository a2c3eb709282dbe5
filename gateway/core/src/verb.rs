//! The verbs of a scheduler extender, and those of the policy API.

use std::{
    marker::PhantomData,
    ops::{Index, IndexMut},
};

/// The verbs of kube-scheduler's extender API: what the gateway is called for.
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

    /// The name of a verb, or `none` for a request whose path names none.
    pub fn name_or_none(verb: Option<Self>) -> &'static str {
        verb.map_or("none", Self::name)
    }

    /// The verb with this [`Verb::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }
}

/// The verbs of the policy API: what the gateway calls backends for. There is one for each [`Verb`], and there are hooks,
/// which change what later backends of a call are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PolicyVerb {
    /// Which nodes a pod may not run on.
    Filter,
    /// A raw score for each node.
    Score,
    /// Which candidates for preemption remain.
    Preempt,
    /// Bind a pod to a node, or decline.
    Bind,
    /// A hook: changes the pod before it is filtered for.
    BeforeFilter,
    /// A hook: changes nodes before they are filtered.
    BeforeFilterNodes,
    /// A hook: changes the pod and nodes before they are scored.
    BeforeScore,
}

impl PolicyVerb {
    /// All verbs, hooks last.
    pub const ALL: [Self; 7] = [
        Self::Filter,
        Self::Score,
        Self::Preempt,
        Self::Bind,
        Self::BeforeFilter,
        Self::BeforeFilterNodes,
        Self::BeforeScore,
    ];

    /// The name in the settings, metrics and logs of backends.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Score => "score",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
            Self::BeforeFilter => "beforeFilter",
            Self::BeforeFilterNodes => "beforeFilterNodes",
            Self::BeforeScore => "beforeScore",
        }
    }

    /// The verb with this [`PolicyVerb::name`].
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.name() == name)
    }

    /// The verb of kube-scheduler whose calls it is a part of.
    pub const fn of_call(self) -> Verb {
        match self {
            Self::Filter | Self::BeforeFilter | Self::BeforeFilterNodes => Verb::Filter,
            Self::Score | Self::BeforeScore => Verb::Prioritize,
            Self::Preempt => Verb::Preempt,
            Self::Bind => Verb::Bind,
        }
    }

    /// Whether it is a hook.
    pub const fn is_hook(self) -> bool {
        matches!(self, Self::BeforeFilter | Self::BeforeFilterNodes | Self::BeforeScore)
    }
}

/// The verb that answers most of a call.
impl From<Verb> for PolicyVerb {
    fn from(verb: Verb) -> Self {
        match verb {
            Verb::Filter => Self::Filter,
            Verb::Prioritize => Self::Score,
            Verb::Preempt => Self::Preempt,
            Verb::Bind => Self::Bind,
        }
    }
}

/// A value for each verb of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ByVerb<V, T, const N: usize>([T; N], PhantomData<V>);

/// A value for each [`Verb`].
pub type PerVerb<T> = ByVerb<Verb, T, 4>;

/// A value for each [`PolicyVerb`].
pub type PerPolicyVerb<T> = ByVerb<PolicyVerb, T, 7>;

macro_rules! by_verb {
    ($verb:ty, $count:literal) => {
        impl<T> ByVerb<$verb, T, $count> {
            /// The value that `make` gives each verb.
            pub fn from_fn(make: impl FnMut($verb) -> T) -> Self {
                Self(<$verb>::ALL.map(make), PhantomData)
            }

            /// Each verb and its value.
            pub fn iter(&self) -> impl Iterator<Item = ($verb, &T)> {
                <$verb>::ALL.into_iter().zip(&self.0)
            }
        }

        impl<T: Default> Default for ByVerb<$verb, T, $count> {
            fn default() -> Self {
                Self::from_fn(|_| T::default())
            }
        }

        impl<T> Index<$verb> for ByVerb<$verb, T, $count> {
            type Output = T;

            fn index(&self, verb: $verb) -> &T {
                &self.0[verb as usize]
            }
        }

        impl<T> IndexMut<$verb> for ByVerb<$verb, T, $count> {
            fn index_mut(&mut self, verb: $verb) -> &mut T {
                &mut self.0[verb as usize]
            }
        }
    };
}

by_verb!(Verb, 4);
by_verb!(PolicyVerb, 7);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_find_their_verbs() {
        for verb in Verb::ALL {
            assert_eq!(Verb::named(verb.name()), Some(verb));
            assert_eq!(PerVerb::from_fn(|verb| verb)[verb], verb);
            assert_eq!(PolicyVerb::from(verb).of_call(), verb);
            assert!(!PolicyVerb::from(verb).is_hook());
        }
        for verb in PolicyVerb::ALL {
            assert_eq!(PolicyVerb::named(verb.name()), Some(verb));
            assert_eq!(PerPolicyVerb::from_fn(|verb| verb)[verb], verb);
        }
        assert_eq!((Verb::named("score"), PolicyVerb::named("prioritize")), (None, None));
    }
}
