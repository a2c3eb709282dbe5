//! Settings that are valid but probably unintended. A mistake is an error; a warning is only reported.

use std::{collections::BTreeSet, time::Duration};

use extender_gateway_core::{
    PolicyVerb,
    interest::{Namespaces, Operator, Requirement},
};

use super::{
    Authorization, BackendSettings, BindFailurePolicy, Binder, Choice, Config, DurationText, Events,
    FailurePolicy, Mode, NodeSource, PodSource, Requeueing,
    lockout::{lockout_remedy, namespace},
    rollout::{DEFAULT_SHADOW, OnExcess},
};

/// A namespace that is exempt by default in every cluster.
const ALWAYS_EXEMPT: &str = "kube-system";
const RESOURCES: &str = "match.managedResources";

impl Config {
    /// Settings that are valid but probably unintended, each as `PATH: fact; advice`. Backends are numbered as in the
    /// file. `exempt` has the exempt namespaces if the file does not name them.
    pub fn warnings(&self, exempt: &BTreeSet<String>) -> Vec<String> {
        let of_gateway = [
            no_backend_enforces(self),
            unused_kubeconfig(self),
            unknown_victims(self),
            long_chain(self),
            long_hooks(self),
            cut_off(self),
            binds_for_strangers(self),
        ];
        let of = |(at, backend)| InBackend { config: self, at, backend };
        let backends: Vec<InBackend<'_>> = self.backends.iter().enumerate().map(of).collect();
        let of_binds = backends.iter().flat_map(|it| [it.unused_bind(), it.no_next_binder()]);
        let of_hooks = backends.iter().flat_map(|it| {
            let hooks = it.backend.verbs().filter(|verb| verb.is_hook());
            hooks.map(|hook| it.unused_hook(hook))
        });
        let of_backends = backends.iter().flat_map(|it| {
            [
                it.no_second_call(),
                it.only_exempt(),
                it.contradiction(),
                it.uncounted(),
                it.counted_for_some(),
                it.uncounted_for_exempt(),
                it.counted_elsewhere(),
                it.locked_out(exempt),
                it.unused_shadow_time(),
            ]
        });
        of_gateway.into_iter().chain(of_binds).chain(of_hooks).chain(of_backends).flatten().collect()
    }
}

/// `fact` is the predicate of a sentence about the path.
fn warning(path: &str, fact: &str, advice: &str) -> String {
    format!("{path}: {fact}; {advice}")
}

fn no_backend_enforces(config: &Config) -> Option<String> {
    let enforced = config.backends.iter().any(|backend| backend.mode == Mode::Enforce);
    let fact = "none has mode: Enforce, so every node is accepted for every pod";
    (!enforced).then(|| warning("backends", fact, "set mode: Enforce for at least one"))
}

fn unused_kubeconfig(config: &Config) -> Option<String> {
    let watches = config.nodes == NodeSource::Watch || config.pod_source() == PodSource::Watch;
    let writes =
        config.binder != Binder::None || config.requeue != Requeueing::None || config.events != Events::None;
    let reviews =
        [config.metrics.authorization, config.admin.authorization].contains(&Authorization::Kubernetes);
    let unused = config.cluster.kubeconfig.is_some() && !watches && !writes && !reviews;
    let advice = "remove it, or set nodes.source or pods.source to Watch";
    unused.then(|| warning("cluster.kubeconfig", "is not used: nothing needs the apiserver", advice))
}

fn unknown_victims(config: &Config) -> Option<String> {
    let preempts = preempting(config).next()?;
    let unknown = config.nodes == NodeSource::Watch && config.pod_source() == PodSource::None;
    let fact = format!("is None, so backend {} would get victims as UIDs only", preempts.name);
    unknown.then(|| warning("pods.source", &fact, "set it to Watch"))
}

/// Preempt calls go to the backends one after the other.
fn long_chain(config: &Config) -> Option<String> {
    let timeouts = preempting(config).filter_map(|backend| Some(backend.preempt.as_ref()?.timeout));
    let (count, sum) = timeouts.fold((0, Duration::ZERO), |(count, sum), timeout| (count + 1, sum + timeout));
    let (decision, longest) = (DurationText(config.timeouts.decision), DurationText(sum));
    let fact = format!(
        "is {decision}, but the {count} backends that serve preempt are called in turn and may take {longest}"
    );
    let advice = "shorten their preempt.timeout, or raise timeouts.decision";
    (count > 1 && sum > config.timeouts.decision).then(|| warning("timeouts.decision", &fact, advice))
}

/// Hooks are called one after the other, and then the backends that filter, at once.
fn long_hooks(config: &Config) -> Option<String> {
    let enforced = || config.backends.iter().filter(|backend| backend.mode == Mode::Enforce);
    let hooks = enforced().flat_map(|backend| {
        let timeouts = backend.timeouts();
        [timeouts[PolicyVerb::BeforeFilter], timeouts[PolicyVerb::BeforeFilterNodes]]
    });
    let (count, sum) =
        hooks.flatten().fold((0, Duration::ZERO), |(count, sum), timeout| (count + 1, sum + timeout));
    let filter = enforced().filter_map(|backend| backend.timeouts()[PolicyVerb::Filter]).max();
    let longest = sum + filter.unwrap_or_default();
    let (decision, told) = (DurationText(config.timeouts.decision), DurationText(longest));
    let calls = if count == 1 {
        "the hook before filter".to_owned()
    } else {
        format!("the {count} hooks before filter, in turn,")
    };
    let fact = format!("is {decision}, but {calls} and then filter may take {told}");
    let advice = "shorten their timeouts, or raise timeouts.decision";
    (count > 0 && longest > config.timeouts.decision).then(|| warning("timeouts.decision", &fact, advice))
}

fn binds_for_strangers(config: &Config) -> Option<String> {
    let extender = &config.extender;
    let open = config.binder != Binder::None && extender.is_open();
    let fact = format!(
        "is true, so anyone who reaches {} may bind any pending pod to any node with the gateway's permissions",
        extender.address
    );
    let advice =
        "require client certificates with extender.tls.clientCAFile, or limit who reaches the address";
    open.then(|| warning("extender.allowUnauthenticatedBind", &fact, advice))
}

/// A call that began just before the end of the gateway.
fn cut_off(config: &Config) -> Option<String> {
    let (shutdown, longest) = (config.timeouts.shutdown, config.timeouts.longest());
    let fact = format!(
        "is {}, but a call may take {}: the gateway cancels those that are not finished when it stops",
        DurationText(shutdown),
        DurationText(longest)
    );
    let advice = "raise it, and terminationGracePeriodSeconds to 10 seconds more, or shorten timeouts.decision and timeouts.bind";
    (longest > shutdown).then(|| warning("timeouts.shutdown", &fact, advice))
}

fn preempting(config: &Config) -> impl Iterator<Item = &BackendSettings> {
    config.backends.iter().filter(|backend| backend.mode == Mode::Enforce && backend.preempt.is_some())
}

/// One backend, and the file that it is in.
struct InBackend<'c> {
    config: &'c Config,
    at: usize,
    backend: &'c BackendSettings,
}

impl<'c> InBackend<'c> {
    fn warning(&self, field: &str, fact: &str, advice: &str) -> String {
        warning(&format!("backends[{}].{field}", self.at), fact, advice)
    }

    /// Only a backend with mode: Enforce binds: a bind cannot be tried in the background.
    fn unused_bind(&self) -> Option<String> {
        let BackendSettings { name, mode, bind, .. } = self.backend;
        if bind.is_none() || *mode == Mode::Enforce {
            return None;
        }
        let mode = mode.word();
        if self.config.binder == Binder::Backend(name.clone()) {
            let fact = format!("names {name}, which has mode: {mode} and does not bind");
            return Some(warning("binder", &fact, "set mode: Enforce for it, or binder: BuiltIn"));
        }
        let fact = format!("is not used with mode: {mode}");
        Some(self.warning("bind", &fact, "set mode: Enforce, or remove it"))
    }

    /// Only a backend with mode: Enforce changes what others get, and another one must get it.
    fn unused_hook(&self, hook: PolicyVerb) -> Option<String> {
        match self.backend.mode {
            Mode::Disabled => None,
            Mode::Shadow => {
                let fact = "is not used with mode: Shadow: what a hook changes would reach other backends";
                Some(self.warning(hook.name(), fact, "set mode: Enforce, or remove it"))
            }
            Mode::Enforce => {
                let (verb, word) = match hook {
                    PolicyVerb::BeforeScore => (PolicyVerb::Score, "score"),
                    _ => (PolicyVerb::Filter, "filter"),
                };
                let is_told = |other: &BackendSettings| {
                    other.mode != Mode::Disabled && other.verbs().any(|it| it == verb)
                };
                let fact = format!("has no effect: no backend has {word}");
                let advice = format!("add {word} to the backend that should see the changes, or remove it");
                let is_unused = !self.config.backends.iter().any(is_told);
                is_unused.then(|| self.warning(hook.name(), &fact, &advice))
            }
        }
    }

    /// The next binder after a failure shares the bind's budget. The final read from the apiserver has its own.
    fn no_next_binder(&self) -> Option<String> {
        let bind = self.backend.bind.as_ref().filter(|_| self.backend.mode == Mode::Enforce)?;
        let left = self.config.timeouts.asking_to_bind();
        let starves = bind.failure_policy == BindFailurePolicy::Next && bind.timeout >= left;
        let (timeout, left) = (DurationText(bind.timeout), DurationText(left));
        let fact = format!("is {timeout}, but timeouts.bind leaves only {left} for binders");
        let advice = "set a shorter one so that the next binder can be called after a failure";
        starves.then(|| self.warning("bind.timeout", &fact, advice))
    }

    /// A failed filter call for more nodes than the other backends left is repeated once if there is time.
    fn no_second_call(&self) -> Option<String> {
        let filter = self.backend.filter.as_ref().filter(|_| self.backend.mode == Mode::Enforce)?;
        let fact = format!("equals timeouts.decision, {}", DurationText(filter.timeout));
        let advice = "set a shorter one so that the backend can be called again for the remaining nodes";
        let fills = filter.timeout >= self.config.timeouts.decision;
        fills.then(|| self.warning("filter.timeout", &fact, advice))
    }

    fn only_exempt(&self) -> Option<String> {
        let Namespaces::Only(names) = &self.backend.matches.interest.namespaces else { return None };
        let is_exempt = |name: &String| match &self.config.exempt.namespaces {
            Some(exempt) => exempt.contains(name),
            None => name == ALWAYS_EXEMPT,
        };
        let fact = "are all exempt, so the backend is never called";
        let advice = "select other namespaces, or remove them from exempt.namespaces";
        names.iter().all(is_exempt).then(|| self.warning("match.namespaces", fact, advice))
    }

    /// Nothing could start its pods if all of them were gone.
    fn locked_out(&self, exempt: &BTreeSet<String>) -> Option<String> {
        let name = self.config.locked_out(self.backend, exempt)?;
        let fact = format!(
            "is in namespace {name}, which is not exempt: if all pods of backend {} are gone, they cannot be scheduled",
            self.backend.name
        );
        Some(self.warning("url", &fact, &lockout_remedy(self.backend, name)))
    }

    /// A time that was changed and is never used.
    fn unused_shadow_time(&self) -> Option<String> {
        let limit = self.backend.max_reject_share.as_ref()?;
        let is_unused = limit.on_excess == OnExcess::Report && limit.shadow_for != DEFAULT_SHADOW;
        let fact = "is not used with onExcess: Report";
        let advice = "set onExcess: Shadow, or remove it";
        is_unused.then(|| self.warning("maxRejectShare.shadowFor", fact, advice))
    }

    /// A label whose conditions exclude each other.
    fn contradiction(&self) -> Option<String> {
        let selector = &self.backend.matches.interest.selector;
        let key = selector.iter().map(|requirement| &requirement.key).find(|key| !can_hold(selector, key))?;
        let fact =
            format!("no pod can satisfy the conditions on label {key:?}, so the backend is never called");
        Some(self.warning("match.podSelector", &fact, "use conditions that can hold together"))
    }

    /// The backends that count a resource instead of kube-scheduler, possibly for some pods only.
    fn counting(&self, name: &String) -> impl Iterator<Item = &'c BackendSettings> {
        self.config.backends.iter().filter(move |other| {
            other.mode == Mode::Enforce
                && other.filter.is_some()
                && other.matches.interest.resources.contains(name)
        })
    }

    /// kube-scheduler ignores the resource, and no enforced backend counts it.
    fn uncounted(&self) -> Option<String> {
        let mut ignored = self.backend.matches.ignored_by_scheduler.iter();
        let name = ignored.find(|name| self.counting(name).next().is_none())?;
        let fact = format!(
            "nothing counts {name}: kube-scheduler ignores it, and no backend with mode: Enforce filters for it"
        );
        let advice = "add the resource to such a backend, or set ignoredByScheduler: false";
        Some(self.warning(RESOURCES, &fact, advice))
    }

    /// Each backend that counts the resource does not count it for every pod that requests it, or not always.
    fn counted_for_some(&self) -> Option<String> {
        let first_gap = |name: &'c String| {
            let gaps = self.counting(name).map(|other| Some((name, &other.name, gap(other)?)));
            gaps.collect::<Option<Vec<_>>>()?.into_iter().next()
        };
        let (name, other, gap) = self.backend.matches.ignored_by_scheduler.iter().find_map(first_gap)?;
        let fact =
            format!("{name} is not always counted: kube-scheduler ignores it, and backend {other} {gap}");
        let advice = "use a backend that matches every such pod, with failurePolicy: Fail, or set ignoredByScheduler: false";
        Some(self.warning(RESOURCES, &fact, advice))
    }

    /// Backends are not called for pods of exempt namespaces. The default exemptions contain only system pods; one
    /// name besides `kube-system` is assumed to be the gateway's own, and those of backends contain policies.
    fn uncounted_for_exempt(&self) -> Option<String> {
        let exempt = self.config.exempt.namespaces.iter().flatten().map(String::as_str);
        let has_backend = |name: &str| {
            self.config.backends.iter().any(|backend| namespace(backend.url.host()) == Some(name))
        };
        let others: Vec<&str> = exempt.filter(|name| *name != ALWAYS_EXEMPT && !has_backend(name)).collect();
        let name = self.backend.matches.ignored_by_scheduler.first().filter(|_| others.len() > 1)?;
        let fact = format!("nothing counts {name} for pods of exempt namespaces: {}", others.join(", "));
        let advice = "remove them from exempt.namespaces, or set ignoredByScheduler: false";
        Some(self.warning(RESOURCES, &fact, advice))
    }

    /// One backend's ignoredByScheduler applies to all.
    fn counted_elsewhere(&self) -> Option<String> {
        let ignores = |backend: &BackendSettings, name| backend.matches.ignored_by_scheduler.contains(name);
        let mut counted = self.backend.matches.interest.resources.iter();
        let (name, other) = counted.find_map(|name| {
            let other = self.config.backends.iter().find(|other| ignores(other, name))?;
            (!ignores(self.backend, name)).then_some((name, &other.name))
        })?;
        let fact = format!(
            "{name} is not counted by kube-scheduler: backend {other} has it with ignoredByScheduler: true"
        );
        Some(self.warning(RESOURCES, &fact, "set the same value for both"))
    }
}

/// Whether a label can satisfy all its conditions.
fn can_hold(selector: &[Requirement], key: &str) -> bool {
    let conditions = || {
        selector.iter().filter(|requirement| requirement.key == key).map(|requirement| &requirement.operator)
    };
    let accepts = |value: &String| {
        conditions().all(|operator| match operator {
            Operator::In(values) => values.contains(value),
            Operator::NotIn(values) => !values.contains(value),
            Operator::Exists => true,
            Operator::DoesNotExist => false,
        })
    };
    let listed = conditions().find_map(|operator| match operator {
        Operator::In(values) => Some(values),
        _ => None,
    });
    let may_be_absent =
        conditions().all(|operator| matches!(operator, Operator::NotIn(_) | Operator::DoesNotExist));
    may_be_absent
        || match listed {
            Some(values) => values.iter().any(accepts),
            // There is always a value that is not listed.
            None => !conditions().any(|operator| *operator == Operator::DoesNotExist),
        }
}

/// Why a backend does not count a resource for every pod that requests it.
fn gap(backend: &BackendSettings) -> Option<&'static str> {
    let fails_open =
        backend.filter.as_ref().is_some_and(|filter| filter.failure_policy == FailurePolicy::Ignore);
    match &backend.matches.interest.namespaces {
        Namespaces::Only(_) => Some("is not called outside match.namespaces"),
        Namespaces::Except(names) if !names.is_empty() => Some("is not called in match.excludedNamespaces"),
        _ if !backend.matches.interest.selector.is_empty() => {
            Some("is not called for pods outside match.podSelector")
        }
        _ => fails_open.then_some("accepts every node when it fails (filter.failurePolicy: Ignore)"),
    }
}

#[cfg(test)]
mod tests;
