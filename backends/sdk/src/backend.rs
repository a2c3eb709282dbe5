//! The source of the policy that answers a call: a fixed one, one that is replaced while running, or one built from
//! the operator's args.

mod exposure;
mod named;
mod recent;
mod versions;

use std::{
    convert::identity,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use extender_policy_api::v1beta1 as api;

pub(crate) use self::{exposure::Exposed, named::NamedArgs};
use self::{recent::Recent, versions::Versions};
use crate::{
    Args, ArgsError, ControllersFailed, DeclarationError, Info, Policy, RunControllers,
    controllers::Beside,
    error::CallError,
    info::declaration::{Declaration, Terms},
};

/// What [`serve`](crate::serve()) serves. A policy converts into a backend, so `serve(MyPolicy, …)` is enough for
/// most. Clones are the same backend.
#[derive(Clone)]
pub struct Backend {
    source: Arc<Source>,
    recent: Arc<Mutex<Recent>>,
    /// Held while a policy is built: what one call builds, another one that came meanwhile finds.
    building: Arc<Mutex<()>>,
    beside: Option<Result<Beside, ControllersFailed>>,
    /// What its callers can do, if that needs client certificates.
    power: Option<&'static str>,
    /// Set where other machines can call it without a certificate.
    exposed: Option<Exposed>,
}

enum Source {
    Fixed(Result<Arc<Versions>, DeclarationError>),
    /// Of [`Backend::with_args`].
    WithArgs(Arc<Versions>),
    Configured(Box<Build>),
}

type Build = dyn Fn(&Args) -> Result<Box<dyn Policy>, ArgsError> + Send + Sync;

/// What counts as declared of what a policy declares.
type Declared = fn(Info) -> Info;

/// A policy with its declaration, which belong together: a call never mixes two policies.
pub(crate) struct Prepared {
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) declaration: Declaration,
}

impl Prepared {
    fn new(policy: Box<dyn Policy>, declared: Declared) -> Result<Arc<Self>, DeclarationError> {
        let declaration = Declaration::new(declared(policy.info()))?;
        Ok(Arc::new(Self { policy, declaration }))
    }

    /// A verb that is called.
    pub(crate) fn called(&self, kind: api::Verb) -> Result<&Terms, CallError> {
        self.declaration.verb(kind).ok_or(CallError::NotServed(method(kind)))
    }
}

/// Of the contract's services.
pub(crate) fn method(kind: api::Verb) -> &'static str {
    match kind {
        api::Verb::Unspecified => "",
        api::Verb::Filter => "Filter",
        api::Verb::Score => "Score",
        api::Verb::Preempt => "Preempt",
        api::Verb::Bind => "Bind",
        api::Verb::BeforeFilter => "BeforeFilter",
        api::Verb::BeforeFilterNodes => "BeforeFilterNodes",
        api::Verb::BeforeScore => "BeforeScore",
    }
}

impl<P: Policy> From<P> for Backend {
    /// One policy that takes no args.
    fn from(policy: P) -> Self {
        Source::Fixed(Versions::new(Box::new(policy), identity).map(Arc::new)).into()
    }
}

impl From<Source> for Backend {
    fn from(source: Source) -> Self {
        let (recent, building) = (Arc::default(), Arc::default());
        Self { source: Arc::new(source), recent, building, beside: None, power: None, exposed: None }
    }
}

impl Backend {
    /// A policy built from the operator's args, so that one process serves several configured policies.
    /// The function is called once for each distinct args, not once a call (the last few results are
    /// kept); without args it sees an empty object.
    ///
    /// ```
    /// # use extender_policy_sdk::{Args, Backend, Info, Policy, Verb};
    /// #[derive(serde::Deserialize)]
    /// #[serde(deny_unknown_fields)]
    /// struct Drain {
    ///     label: String,
    /// }
    /// # impl Policy for Drain {
    /// #     fn info(&self) -> Info { Info::new("drain", "1").filters(Verb::per_node().pure()) }
    /// # }
    /// let backend = Backend::configured(Args::parse::<Drain>);
    /// ```
    pub fn configured<P, F>(build: F) -> Self
    where
        P: Policy,
        F: Fn(&Args) -> Result<P, ArgsError> + Send + Sync + 'static,
    {
        let build = move |args: &Args| build(args).map(|policy| Box::new(policy) as Box<dyn Policy>);
        Source::Configured(Box::new(build)).into()
    }

    /// A policy that takes no args and is replaced while running, such as one made from a rule file.
    ///
    /// If the new policy declares other [`Reads`](crate::Reads), the old one still answers the calls that were made
    /// for it, until the gateway has repeated the handshake; so do the 16 latest of several old ones.
    pub fn replaceable<P: Policy>(policy: P) -> Result<(Self, Replace), DeclarationError> {
        let versions = Arc::new(Versions::new(Box::new(policy), identity)?);
        Ok((Source::Fixed(Ok(Arc::clone(&versions))).into(), Replace { versions }))
    }

    /// With controllers, which run beside the server as long as it serves: such as those of the crate
    /// `extender-policy-controllers`, in one replica at a time. Their error drains the server and ends it. They run once:
    /// a second server of this backend ends with [`ServeError::Controllers`](crate::ServeError::Controllers).
    #[must_use]
    pub fn with_controllers(self, controllers: impl RunControllers) -> Self {
        Self { beside: Some(Beside::new(controllers)), ..self }
    }

    /// The controllers that run beside the server, if they can be run.
    pub(crate) fn beside(&self) -> Option<&Beside> {
        self.beside.as_ref()?.as_ref().ok()
    }

    /// Why the controllers cannot be run, if they cannot.
    pub(crate) fn check_controllers(&self) -> Result<(), ControllersFailed> {
        self.beside.as_ref().map_or(Ok(()), |beside| beside.as_ref().map(drop).map_err(Clone::clone))
    }

    /// A policy that is sent everything, whatever it declares to read.
    pub(crate) fn reading_everything(policy: impl Policy) -> Self {
        Source::Fixed(Versions::new(Box::new(policy), Info::reading_everything).map(Arc::new)).into()
    }

    /// The policy that this backend has for these args, for any args.
    pub(crate) fn with_args(&self, args: &[u8]) -> Result<Self, CallError> {
        let source = Arc::new(Source::WithArgs(self.versions(NamedArgs::whole(args)?)?));
        Ok(Self { source, ..self.clone() })
    }

    /// What is wrong with the policy's declaration, if that is known before args come.
    pub(crate) fn check(&self) -> Result<(), DeclarationError> {
        match &*self.source {
            Source::Fixed(versions) => versions.as_ref().map(drop).map_err(Clone::clone),
            Source::WithArgs(_) | Source::Configured(_) => Ok(()),
        }
    }

    /// The policy's name and version, if they are known before args come.
    #[cfg(feature = "otlp")]
    pub(crate) fn name_and_version(&self) -> Option<(String, String)> {
        let newest = self.known()?.newest();
        let info = &newest.declaration.response;
        Some((info.name.clone(), info.version.clone()))
    }

    /// The policies that answer calls at this time.
    pub(crate) fn in_use(&self) -> Vec<Arc<Prepared>> {
        match self.known() {
            Some(versions) => vec![versions.newest()],
            None => self.recent().versions().map(|versions| versions.newest()).collect(),
        }
    }

    /// The versions of the policy, if it is known before args come.
    fn known(&self) -> Option<&Versions> {
        match &*self.source {
            Source::Fixed(versions) => versions.as_deref().ok(),
            Source::WithArgs(versions) => Some(versions),
            Source::Configured(_) => None,
        }
    }

    /// The policy for these args.
    pub(crate) fn policy_for(&self, args: NamedArgs<'_>) -> Result<Arc<Prepared>, CallError> {
        self.permitted(self.versions(args)?.latest()?)
    }

    fn versions(&self, args: NamedArgs<'_>) -> Result<Arc<Versions>, CallError> {
        match &*self.source {
            Source::WithArgs(versions) => return Ok(Arc::clone(versions)),
            // Most policies: nothing is looked up.
            Source::Fixed(versions) if args.are_none() => return Ok(versions.clone()?),
            Source::Fixed(_) | Source::Configured(_) => {}
        }
        if let Some(known) = self.recent().find(&args.digest) {
            return Ok(known);
        }
        let json = args.json.ok_or(CallError::ArgsUnknown)?;
        let _building = self.building.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = self.recent().find(&args.digest) {
            return Ok(known);
        }
        let versions = self.source.build(json)?;
        self.recent().remember(args.digest, json.len(), Arc::clone(&versions));
        Ok(versions)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        // Nothing that can panic runs under the lock, so a poisoned one holds no broken state.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The policy for this call: the one for its args or, if that one no longer declares what pod and nodes were
    /// encoded with, an earlier one that does. Whether the verb is declared is left to the caller.
    pub(crate) fn policy_reading(
        &self,
        call: &api::Call,
        verb: api::Verb,
    ) -> Result<Arc<Prepared>, CallError> {
        let versions = self.versions(NamedArgs::of(call)?)?;
        let latest = self.permitted(versions.latest()?)?;
        let fits = |terms: &Terms| call.reads == terms.reads_digest()[..];
        if latest.declaration.verb(verb).is_none_or(fits) {
            return Ok(latest);
        }
        let earlier = versions.find(|version| version.declaration.verb(verb).is_some_and(fits));
        earlier.ok_or(CallError::OtherReads)
    }
}

impl Source {
    /// The policy for args that are not known.
    fn build(&self, json: &[u8]) -> Result<Arc<Versions>, CallError> {
        let args = Args::new(json)?;
        match self {
            Self::WithArgs(versions) => Ok(Arc::clone(versions)),
            Self::Fixed(versions) => {
                args.refuse_any()?;
                Ok(versions.clone()?)
            }
            Self::Configured(build) => Ok(Arc::new(Versions::new(build(&args)?, identity)?)),
        }
    }
}

impl fmt::Debug for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backend").finish_non_exhaustive()
    }
}

/// Replaces the policy of [`Backend::replaceable`]. Calls under way finish with the old one.
#[derive(Clone)]
pub struct Replace {
    versions: Arc<Versions>,
}

impl Replace {
    /// From now on this policy answers. If it declares no verb, the old one stays. The gateway judges the rest of the declaration:
    /// one that it rejects has replaced the old one, too.
    pub fn with<P: Policy>(&self, policy: P) -> Result<(), DeclarationError> {
        self.versions.replace(Box::new(policy))
    }
}

impl fmt::Debug for Replace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replace").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread, time::Duration};

    use super::*;
    use crate::tests::Filters;

    #[test]
    fn two_calls_at_a_time_build_one_policy() {
        let (built, builds) = mpsc::channel();
        let (builds, second) = (Mutex::new(builds), Duration::from_millis(100));
        let backend = Backend::configured(move |_: &Args| {
            built.send(()).unwrap();
            // The first build takes until the second one has begun, which must not happen.
            if let Ok(builds) = builds.try_lock() {
                builds.recv().unwrap();
                assert!(builds.recv_timeout(second).is_err(), "it is built twice");
            }
            Ok(Filters)
        });
        let asked = || backend.policy_for(NamedArgs::whole(b"{}").unwrap()).unwrap();
        let (one, other) = thread::scope(|scope| {
            let calls = [scope.spawn(asked), scope.spawn(asked)];
            let [one, other] = calls.map(|call| call.join().unwrap());
            (one, other)
        });
        assert!(Arc::ptr_eq(&one, &other));
    }
}
