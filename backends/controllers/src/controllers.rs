//! The controllers of a backend, as its author declares them, and their start beside the server.

use std::{
    env, fs,
    io::{self, Write as _},
    process,
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use extender_apiserver::ClientTimeouts;
use extender_policy_sdk::{BoxFuture, ControllersFailed, ControllersReport, RunControllers};
use kube::Config;
use tokio::{runtime::Builder, sync::oneshot};

use crate::{
    Leading, LeaseName, Timing,
    candidate::Candidate,
    lead::{Crew, Exit, lead},
    lease::StoredLease,
    term::Controller,
    timing::random,
};

/// The pod's name: the variable that manifests set from `metadata.name`, and the host's name, which is the same in most
/// pods.
const NAME_VARIABLE: &str = "POD_NAME";
const HOSTNAME_FILE: &str = "/proc/sys/kernel/hostname";

/// The default of [`Controllers::stop_limit`].
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// The controllers of a backend, of which one replica at a time runs all: the holder of a Lease.
///
/// ```no_run
/// use extender_policy_controllers::{Controllers, Leading, LeaseName};
/// use extender_policy_sdk::{Backend, run};
/// # use extender_policy_sdk::{Info, Policy, Verb};
/// # struct QuotaCounts;
/// # impl Policy for QuotaCounts {
/// #     fn info(&self) -> Info { Info::new("quotas", "1").filters(Verb::per_node()) }
/// # }
///
/// async fn sync(leading: Leading) -> Result<(), kube::Error> {
///     loop {
///         // Reads and writes objects with `leading.client()`.
///         tokio::time::sleep(std::time::Duration::from_secs(10)).await;
///     }
/// }
///
/// fn main() -> std::process::ExitCode {
///     // A program installs a `tracing` subscriber first, because the election says only in the log what it does.
///     let controllers = Controllers::new(LeaseName::in_own_namespace("quotas")).runs("quota-sync", sync);
///     run(Backend::from(QuotaCounts).with_controllers(controllers))
/// }
/// ```
#[must_use]
pub struct Controllers {
    lease: LeaseName,
    identity: String,
    timing: Timing,
    stop_limit: Duration,
    config: Option<Config>,
    declared: Vec<Controller>,
    exit: Arc<Exit>,
}

impl Controllers {
    /// No controller yet. Replicas with the same lease compete.
    pub fn new(lease: LeaseName) -> Self {
        Self {
            lease,
            identity: identity(),
            timing: Timing::default(),
            stop_limit: STOP_LIMIT,
            config: None,
            declared: Vec::new(),
            exit: Arc::new(exit),
        }
    }

    /// Adds a controller with this name, at most 63 bytes. The function is called in each term, and its future is dropped
    /// at an `await` when the term ends: a sequence of writes can end between two of them. It runs on a thread that only
    /// controllers use; work that blocks belongs into `tokio::task::spawn_blocking`, and asks [`Leading::leads`].
    ///
    /// An error, as well as a panic, ends leadership and the process, which Kubernetes restarts. A controller that returns
    /// `Ok` has done its work for the term.
    pub fn runs<F, E>(
        mut self,
        name: impl AsRef<str>,
        start: impl Fn(Leading) -> F + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: std::fmt::Display,
    {
        let start = move |leading| -> BoxFuture<'static, Result<(), String>> {
            let running = start(leading);
            Box::pin(async move { running.await.map_err(|error| error.to_string()) })
        };
        self.declared.push(Controller { name: name.as_ref().into(), start: Arc::new(start) });
        self
    }

    /// This replica's name as a holder of the lease, at most 253 bytes. No other process has it, and neither has an
    /// earlier one. Default: the pod's name (`POD_NAME`, or the host's name) with a random suffix.
    pub fn identity(self, identity: impl Into<String>) -> Self {
        Self { identity: identity.into(), ..self }
    }

    /// The times of the election. Default: [`Timing::default`].
    pub fn timing(self, timing: Timing) -> Self {
        Self { timing, ..self }
    }

    /// How long controllers may take to stop when the lease is lost, and at the stop of the process: then the process is
    /// ended. Never longer than until the lease expires, unless another replica has it already. Default: 10 s.
    pub fn stop_limit(self, stop_limit: Duration) -> Self {
        Self { stop_limit, ..self }
    }

    /// The apiserver. Default: that of the kubeconfig in `KUBECONFIG` or `~/.kube/config`, or else of the pod's service
    /// account.
    pub fn apiserver(self, config: Config) -> Self {
        Self { config: Some(config), ..self }
    }

    /// Ends the process when controllers have not stopped in time; the text says why. Default: the text on standard error,
    /// and exit code 1. If it returns, the server drains, and the controllers may still run.
    pub fn exit(self, exit: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { exit: Arc::new(exit), ..self }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.declared.iter().map(|controller| &*controller.name)
    }

    /// Everything that the thread of the election needs.
    fn replica(&self, report: &ControllersReport) -> Replica {
        let Self { lease, timing, stop_limit, config, declared, exit, .. } = self;
        Replica {
            lease: lease.clone(),
            timing: *timing,
            stop_limit: *stop_limit,
            config: config.clone(),
            controllers: declared.clone(),
            exit: Arc::clone(exit),
            report: report.clone(),
        }
    }
}

impl std::fmt::Debug for Controllers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut controllers = f.debug_struct("Controllers");
        controllers.field("lease", &self.lease).field("identity", &self.identity);
        controllers.field("names", &self.names().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

impl RunControllers for Controllers {
    fn report(&self) -> Result<ControllersReport, ControllersFailed> {
        let lease = self.lease.checked().map_err(ControllersFailed)?;
        ControllersReport::new(self.names(), &lease, &self.identity)
    }

    fn run<'a>(
        &'a self,
        report: &'a ControllersReport,
        stop: BoxFuture<'static, ()>,
    ) -> BoxFuture<'a, Result<(), ControllersFailed>> {
        let replica = self.replica(report);
        Box::pin(async move {
            // Dropped at the stop, and if this future is dropped.
            let (running, stopped) = oneshot::channel::<()>();
            let (end, mut ended) = oneshot::channel();
            let election = thread::Builder::new().name("leader-election".to_owned());
            let spawned = election.spawn(move || drop(end.send(replica.run(stopped))));
            spawned
                .map_err(|error| ControllersFailed(format!("the leader election cannot start: {error}")))?;
            let ended = tokio::select! {
                ended = &mut ended => ended,
                () = stop => {
                    drop(running);
                    ended.await
                }
            };
            ended.unwrap_or_else(|_| {
                Err(ControllersFailed("the leader election ended unexpectedly".to_owned()))
            })
        })
    }
}

/// A replica in the election, on a thread with a runtime of its own: a policy that is busy then delays no renewal, and
/// no end of the controllers.
struct Replica {
    lease: LeaseName,
    timing: Timing,
    stop_limit: Duration,
    config: Option<Config>,
    controllers: Vec<Controller>,
    exit: Arc<Exit>,
    report: ControllersReport,
}

impl Replica {
    fn run(self, stopped: oneshot::Receiver<()>) -> Result<(), ControllersFailed> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| ControllersFailed(format!("the leader election cannot start: {error}")))?;
        let ended = runtime.block_on(self.lead(stopped));
        // A program for credentials that does not end must not hold up the process.
        runtime.shutdown_background();
        ended
    }

    async fn lead(self, mut stopped: oneshot::Receiver<()>) -> Result<(), ControllersFailed> {
        let Self { lease, timing, stop_limit, config, controllers, exit, report } = self;
        let connected = async {
            let config = match config {
                Some(config) => config,
                None => extender_apiserver::config(None, None).await?,
            };
            let timeouts = ClientTimeouts { connect: timing.attempt(), ..ClientTimeouts::default() };
            Ok((extender_apiserver::client(config.clone(), timeouts).await?, config))
        };
        // It may wait for a program that the kubeconfig names for its credentials.
        let connected: Result<_, extender_apiserver::ConnectError> = tokio::select! {
            connected = connected => connected,
            _ = &mut stopped => return Ok(()),
        };
        let (client, config) = connected
            .map_err(|error| ControllersFailed(format!("no access to lease {}: {error}", report.lease())))?;
        let store = StoredLease::new(client, &lease);
        let candidate = Candidate::new(store, timing, report.clone());
        let crew = Crew { controllers, config, report, stop_limit, exit };
        lead(candidate, &crew, async { drop(stopped.await) }).await
    }
}

/// A name that no other process has.
fn identity() -> String {
    let hostname = || fs::read_to_string(HOSTNAME_FILE).ok();
    let name = env::var(NAME_VARIABLE).ok().filter(|given| !given.is_empty()).or_else(hostname);
    let name = name.as_deref().map_or("replica", str::trim);
    format!("{}_{:016x}", &name[..name.floor_char_boundary(200)], random())
}

/// Ends the process, even if nothing reads standard error.
fn exit(reason: &str) {
    let (reason, (written, waiting)) = (reason.to_owned(), mpsc::channel());
    thread::spawn(move || {
        drop(writeln!(io::stderr(), "{reason}"));
        _ = written.send(());
    });
    _ = waiting.recv_timeout(Duration::from_secs(1));
    process::exit(1);
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn controllers(lease: LeaseName) -> Controllers {
        Controllers::new(lease).runs("sync", |_| pending::<Result<(), String>>())
    }

    #[test]
    fn no_two_processes_have_one_identity() {
        let [one, other] = [identity(), identity()];
        assert_ne!(one, other);
        assert!(one.len() > 17 && one.len() <= 253, "{one}");
    }

    /// Set in the process that exits.
    const EXITS: &str = "EXTENDER_TEST_EXITS";

    #[test]
    fn exits_in_a_process_of_its_own() {
        if env::var_os(EXITS).is_some() {
            exit("the controllers hang");
        }
    }

    #[test]
    fn the_default_exit_says_why_and_ends_the_process() {
        let itself = process::Command::new(env::current_exe().unwrap())
            .args(["--exact", "controllers::tests::exits_in_a_process_of_its_own", "--nocapture"])
            .env(EXITS, "yes")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&itself.stderr).into_owned();
        assert_eq!((itself.status.code(), said.contains("the controllers hang")), (Some(1), true), "{said}");
    }

    #[test]
    fn the_report_names_lease_identity_and_controllers() {
        let controllers = controllers(LeaseName::new("shop", "quota")).identity("me");
        let report = controllers.report().unwrap();
        assert_eq!((report.lease(), report.identity()), ("shop/quota", "me"));
        assert_eq!(controllers.names().collect::<Vec<_>>(), ["sync"]);
    }

    #[test]
    fn mistakes_are_known_before_the_start() {
        for (controllers, expected) in [
            (controllers(LeaseName::new("shop", "Quota")), "the lease has the name \"Quota\""),
            (controllers(LeaseName::new("shop", "quota")).identity(""), "the identity has 0 bytes"),
            (Controllers::new(LeaseName::new("shop", "quota")), "0 controllers"),
        ] {
            let error = controllers.report().unwrap_err().0;
            assert!(error.contains(expected), "{error}");
        }
    }
}
