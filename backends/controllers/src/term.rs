//! The controllers during one term, on a thread with a runtime of their own. A controller that blocks its thread then holds
//! up neither the calls of the policy nor the election; and the end of the runtime ends whatever controllers have
//! spawned.

use std::{
    io,
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
};

use extender_apiserver::ClientTimeouts;
use extender_policy_sdk::{BoxFuture, ControllersReport};
use futures_util::FutureExt as _;
use kube::Config;
use tokio::{
    runtime::Builder,
    sync::oneshot,
    task::JoinSet,
    time::{Instant, timeout_at},
};

use crate::Leading;

/// Starts a controller for a term.
pub(crate) type Start = dyn Fn(Leading) -> BoxFuture<'static, Result<(), String>> + Send + Sync;

/// A controller.
#[derive(Clone)]
pub(crate) struct Controller {
    pub(crate) name: Arc<str>,
    pub(crate) start: Arc<Start>,
}

/// A term that has begun.
pub(crate) struct Term {
    leads: Arc<AtomicBool>,
    /// Cancels the controllers when it is dropped.
    cancel: Option<oneshot::Sender<()>>,
    failed: oneshot::Receiver<String>,
    ended: oneshot::Receiver<()>,
}

impl Term {
    /// Starts the controllers of a replica that leads, with a client of this configuration.
    pub(crate) fn begin(
        controllers: Vec<Controller>,
        config: Config,
        report: &ControllersReport,
        transitions: u64,
    ) -> io::Result<Self> {
        let leads = Arc::new(AtomicBool::new(true));
        let (cancel, cancelled) = oneshot::channel();
        let (fail, failed) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let seat = Seat {
            lease: report.lease().into(),
            identity: report.identity().into(),
            transitions,
            leads: Arc::clone(&leads),
        };
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name("controllers".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    _ = cancelled => {}
                    // The receiver is gone if the term is over.
                    failure = run(controllers, config, seat) => drop(fail.send(failure)),
                }
            });
            // Drops what controllers have spawned, and waits for their blocking tasks.
            drop(runtime);
            _ = end.send(());
        })?;
        Ok(Self { leads, cancel: Some(cancel), failed, ended })
    }

    /// Waits until a controller fails.
    pub(crate) async fn failure(&mut self) -> String {
        let failure = (&mut self.failed).await;
        failure.unwrap_or_else(|_| "the thread of the controllers ended unexpectedly".to_owned())
    }

    /// Cancels the controllers.
    pub(crate) fn cancel(&mut self) {
        self.leads.store(false, SeqCst);
        self.cancel = None;
    }

    /// Cancels the controllers; says whether they have stopped by then.
    pub(crate) async fn stop(mut self, until: Instant) -> bool {
        self.cancel();
        timeout_at(until, &mut self.ended).await.is_ok()
    }
}

impl Drop for Term {
    fn drop(&mut self) {
        self.leads.store(false, SeqCst);
    }
}

/// A [`Leading`] without its client, which belongs to the runtime of the term.
struct Seat {
    lease: Arc<str>,
    identity: Arc<str>,
    transitions: u64,
    leads: Arc<AtomicBool>,
}

/// Runs the controllers until one fails; returns the failure. Those that end without an error have done their work.
async fn run(controllers: Vec<Controller>, config: Config, seat: Seat) -> String {
    let client = match extender_apiserver::client(config, ClientTimeouts::default()).await {
        Ok(client) => client,
        Err(error) => return error.to_string(),
    };
    let Seat { lease, identity, transitions, leads } = seat;
    let leading = Leading { client, lease, identity, transitions, leads };
    let mut running = JoinSet::new();
    for controller in controllers {
        running.spawn(outcome(controller, leading.clone()));
    }
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok((name, Ok(()))) => tracing::info!("controller {name} has ended; the lease is kept"),
            Ok((name, Err(failure))) => return format!("controller {name} {failure}"),
            Err(error) => return format!("a controller ended unexpectedly: {error}"),
        }
    }
    std::future::pending().await
}

/// How a controller ended, with its name. A panic is a failure as others.
async fn outcome(controller: Controller, leading: Leading) -> (Arc<str>, Result<(), String>) {
    let Controller { name, start } = controller;
    // Unwind safe: after a failure nothing of the term is used.
    let ended = AssertUnwindSafe(async { start(leading).await }).catch_unwind().await;
    let outcome = match ended {
        Ok(ended) => ended.map_err(|error| format!("failed: {error}")),
        Err(panic) => {
            let constant = panic.downcast_ref::<&str>().copied();
            let text = constant.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
            Err(format!("panicked: {}", text.unwrap_or("without a text")))
        }
    };
    (name, outcome)
}
