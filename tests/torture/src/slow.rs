//! A policy that answers few calls at a time, each after a while, as one does that asks a database.

use std::{net::SocketAddr, thread, time::Duration};

use extender_policy_sdk::{
    Bound, BoxFuture, Info, Node, Nodes, Options, Pod, Policy, Reads, Telemetry, Unanswered, Verb, Verdict,
};
use tokio::{
    runtime,
    sync::{Semaphore, oneshot},
    time::sleep,
};

use crate::Failure;

/// How a slow policy works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) at_a_time: usize,
    pub(crate) work: Duration,
}

#[derive(Debug)]
struct Slow {
    pace: Pace,
    free: Semaphore,
}

impl Policy for Slow {
    fn info(&self) -> Info {
        Info::new("slow", "1").filters(Verb::per_node().reads(&Reads::new()).waits())
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::Accept
    }

    fn filter_later<'a>(
        &'a self,
        pod: Pod<'a>,
        nodes: Nodes<'a>,
    ) -> BoxFuture<'a, Result<Vec<Verdict>, Unanswered>> {
        Box::pin(async move {
            let _works = self.free.acquire().await;
            sleep(self.pace.work).await;
            Ok(self.filter_all(&pod, &nodes))
        })
    }
}

/// A policy that is served until this is dropped.
#[derive(Debug)]
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    _stop: oneshot::Sender<()>,
}

/// Serves it in a thread of its own.
pub(crate) fn serve(pace: Pace) -> Result<Served, Failure> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    let options = Options { telemetry: Telemetry::off(), ..Options::default() };
    let policy = Slow { pace, free: Semaphore::new(pace.at_a_time) };
    let bound = runtime.block_on(Bound::new(policy, options))?;
    let (address, (stop, stopped)) = (bound.address(), oneshot::channel());
    thread::spawn(move || runtime.block_on(bound.until(async { drop(stopped.await) })));
    Ok(Served { address, _stop: stop })
}
