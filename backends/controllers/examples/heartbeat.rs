//! A policy with a controller that runs in one of its replicas: it writes to the `ConfigMap` `heartbeat` who leads. The policy
//! itself accepts every node.
//!
//! The interesting part is what a leader does that has lost its Lease without noticing: see [`Heart::beat`].

use std::{
    collections::BTreeMap,
    env, io,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use extender_policy_controllers::{Controllers, Leading, LeaseName};
use extender_policy_sdk::{
    Backend, Info, IntrospectAsk, IntrospectError, Node, Pod, Policy, Reads, Verb, Verdict, run,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ObjectMeta, PostParams},
};
use serde_json::{Value, json};
use tokio::time::sleep;
use tracing_appender::non_blocking::WorkerGuard;

const NAME: &str = "heartbeat";
const EVERY: Duration = Duration::from_secs(1);
/// The key of the leader's fencing token.
const TERM: &str = "term";

/// The controller, and what it shows.
#[derive(Clone, Default)]
struct Heart {
    /// What this replica has written last.
    written: Arc<Mutex<BTreeMap<String, String>>>,
}

impl Heart {
    /// Beats as long as this replica leads: then the future is dropped.
    async fn lead(self, leading: Leading) -> Result<(), String> {
        // The Lease has the namespace of this process.
        let namespace = leading.lease().split('/').next().unwrap_or_default();
        let config_maps: Api<ConfigMap> = Api::namespaced(leading.client().clone(), namespace);
        loop {
            self.beat(&config_maps, &leading).await?;
            sleep(EVERY).await;
        }
    }

    /// Writes the `ConfigMap`. Two things keep a leader from writing that does not lead any more: the token of a later one,
    /// which is larger, and the `resourceVersion` of what it has read, with which the apiserver refuses a write that is late.
    async fn beat(&self, config_maps: &Api<ConfigMap>, leading: &Leading) -> Result<(), String> {
        let new = || ConfigMap {
            metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
            ..ConfigMap::default()
        };
        let found = match config_maps.get_opt(NAME).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => config_maps.create(&PostParams::default(), &new()).await,
            Err(error) => Err(error),
        };
        // If it fails, the next beat tries again; whether this replica still leads is the election's business.
        let mut found = match found {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!("cannot read or create the ConfigMap {NAME}: {error}; trying again");
                return Ok(());
            }
        };
        let number = |key: &str| found.data.as_ref()?.get(key)?.parse::<u64>().ok();
        let (term, later) = (leading.transitions(), number(TERM).unwrap_or_default());
        if later > term {
            return Err(format!("term {later} has begun, this replica leads in term {term}"));
        }
        let beats = number("beats").unwrap_or_default() + 1;
        found.data = Some(BTreeMap::from([
            ("leader".to_owned(), leading.identity().to_owned()),
            (TERM.to_owned(), term.to_string()),
            ("beats".to_owned(), beats.to_string()),
        ]));
        match config_maps.replace(NAME, &PostParams::default(), &found).await {
            Ok(written) => {
                *self.written.lock().unwrap_or_else(PoisonError::into_inner) =
                    written.data.unwrap_or_default();
            }
            Err(error) => tracing::warn!("cannot write the ConfigMap {NAME}: {error}; trying again"),
        }
        Ok(())
    }
}

struct Heartbeat {
    heart: Heart,
}

impl Policy for Heartbeat {
    fn info(&self) -> Info {
        Info::new(NAME, "1.0.0")
            .filters(Verb::per_node().pure().reads(&Reads::new()))
            .shows("/heartbeat", "what this replica has written last")
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::Accept
    }

    fn introspect(&self, _: &IntrospectAsk<'_>) -> Result<Value, IntrospectError> {
        let written = self.heart.written.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(json!({ "written": *written }))
    }
}

/// Without a subscriber nothing says what the election does. Another thread writes to standard error, which would otherwise
/// block all calls if nobody reads it; the guard writes the last lines.
fn log() -> WorkerGuard {
    let (stderr, last_lines) = tracing_appender::non_blocking(io::stderr());
    tracing_subscriber::fmt().with_env_filter("info,h2=error").with_writer(stderr).with_ansi(false).init();
    last_lines
}

fn main() -> ExitCode {
    if env::var_os("POD_NAMESPACE").is_none() {
        // Elsewhere the Lease and the ConfigMap could be in different namespaces.
        #[expect(clippy::print_stderr, reason = "the program ends")]
        {
            eprintln!("POD_NAMESPACE is not set; set it with the downward API to metadata.namespace");
        }
        return ExitCode::FAILURE;
    }
    let _last_lines = log();
    let heart = Heart::default();
    let controllers = Controllers::new(LeaseName::in_own_namespace(NAME));
    let leads = heart.clone();
    let controllers = controllers.runs(NAME, move |leading| leads.clone().lead(leading));
    run(Backend::from(Heartbeat { heart }).with_controllers(controllers))
}
