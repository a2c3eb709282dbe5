//! One case of bind: a backend that fails, what it did before, and the next binder.

use extender_policy_api::v1beta1::BindOutcome;

use super::{counted, failing, failures::Fault, verbs::Verb};
use crate::support::{
    Gateway,
    apiserver::Apiserver,
    backend::configured,
    binding::{binding_to, says},
};

/// What the failing backend did before it failed.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Bound,
}

/// Which binders exist besides it and the gateway itself.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Next {
    NoBinder,
    Binder,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Situation {
    policy: &'static str,
    before: Before,
    next: Next,
}

/// Every policy × what was done × the next binder, if that makes a difference: a case without a next binder only
/// where one would be called.
pub(crate) fn situations() -> impl Iterator<Item = Situation> {
    let policies = Verb::Bind.policies().iter();
    let all = policies.flat_map(|policy| {
        [Before::Nothing, Before::Bound].into_iter().flat_map(move |before| {
            [Next::NoBinder, Next::Binder].map(move |next| Situation { policy, before, next })
        })
    });
    all.filter(|situation| situation.next == Next::Binder || situation.next_is_asked())
}

impl Situation {
    /// Whether a backend that fails in this way can have done this before.
    pub(crate) fn can_be(&self, fault: &Fault) -> bool {
        self.before == Before::Nothing || fault.is_asked()
    }

    fn ends_bound(&self) -> bool {
        self.before == Before::Bound || self.policy == "Next"
    }

    fn next_is_asked(&self) -> bool {
        self.before == Before::Nothing && self.policy == "Next"
    }
}

/// The pod is bound once, or the bind fails and says why.
pub(crate) async fn check(fault: &Fault, situation: Situation) {
    let case = format!("{} × bind × {situation:?}", fault.name);
    let apiserver = Apiserver::start().await;
    let binding = apiserver.clone();
    let bad = failing(fault, Verb::Bind, move || {
        if situation.before == Before::Bound {
            binding.set("web-0", "u-1", Some("a"));
        }
    })
    .await;
    let next = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let mut backends = format!(
        "- {{name: bad, url: 'http://{bad}', bind: {{timeout: {}, failurePolicy: {}}}}}\n",
        fault.timeout(),
        situation.policy
    );
    if situation.next == Next::Binder {
        backends += &configured("next", &next, "bind: {timeout: 20s}");
    }
    let rest = format!("{}backends:\n{backends}", apiserver.configuration("bad"));
    let gateway = Gateway::start_paced(&rest, fault.cadences()).await;
    let answer = gateway.post(Verb::Bind.path(), Verb::Bind.request()).await;
    if situation.ends_bound() {
        assert_eq!(answer.json(), Verb::Bind.without_the_failing_one(), "{case}");
        assert_eq!(apiserver.node(), Some("a"), "{case}");
    } else {
        let error = format!("extender-gateway: backend bad failed bind: {}", fault.said);
        assert!(answer.error().starts_with(&error), "{case}: {}", answer.error());
        assert_eq!(apiserver.node(), None, "{case}");
    }
    let asked = |who: Next| usize::from(situation.next == who && situation.next_is_asked());
    assert_eq!(next.messages("Bind").len(), asked(Next::Binder), "{case}");
    assert_eq!(apiserver.bindings().len(), asked(Next::NoBinder), "{case}: who else binds but the gateway");
    counted(&gateway, fault, Verb::Bind, &case).await;
}
