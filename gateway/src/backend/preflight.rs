//! Asks backends, before a running gateway uses new settings of them, whether they take these.
//!
//! What may be in `args` only the backend knows, and it says so in the handshake. Settings that it refuses would
//! take it down, while those in use are right.

use std::{pin::pin, time::Duration};

use extender_gateway_core::BackendFailure;
use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    connect::connect,
    containment::contained,
    grpc::RpcError,
    session::{self, Paths, shake_hands},
};
use crate::{
    config::{self, BackendName, Mode},
    observe::Metrics,
};

/// How long a backend may take. One that says nothing has refused nothing.
const PATIENCE: Duration = Duration::from_secs(3);

/// A backend that does not take its settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("backend {backend} rejected its new settings: {failure}")]
pub struct PreflightRefusal {
    /// Which one.
    pub backend: BackendName,
    /// What it said.
    pub failure: BackendFailure,
}

/// The backends that refuse their new settings, in the order of the file. Those that stay as they are in
/// `used`, and those that are not to be asked, are left alone.
pub async fn refusals(
    metrics: &Metrics,
    new: &[config::BackendSettings],
    used: &[config::BackendSettings],
) -> Vec<PreflightRefusal> {
    let changed = new.iter().filter(|backend| {
        backend.mode != Mode::Disabled && !used.iter().any(|known| is_in_use(known, backend))
    });
    join_all(changed.map(|backend| refusal(metrics, backend))).await.into_iter().flatten().collect()
}

/// Whether the connection of one serves for the other.
fn is_in_use(used: &config::BackendSettings, new: &config::BackendSettings) -> bool {
    used.mode != Mode::Disabled && session::same(used, new)
}

async fn refusal(metrics: &Metrics, settings: &config::BackendSettings) -> Option<PreflightRefusal> {
    // A bug of the gateway is no refusal of the backend: the settings are used, and its failure policies decide.
    let ended = timeout(PATIENCE, contained(metrics, greet(settings))).await.ok()?.err()?;
    // How a handshake ends whose args are wrong, as the contract has it.
    let refused = ended.is_invalid_argument();
    refused.then(|| PreflightRefusal { backend: settings.name.clone(), failure: ended.into() })
}

/// One handshake, on a connection of its own.
async fn greet(settings: &config::BackendSettings) -> Result<(), RpcError> {
    let (requests, connection) = connect(settings, PATIENCE).await?;
    let paths = Paths::new(&settings.url);
    let mut asked = pin!(shake_hands(settings, &requests, &paths, PATIENCE));
    let answer = tokio::select! {
        answer = &mut asked => answer,
        // The answer may have come with the end.
        _ = connection => asked.await,
    };
    answer.map(drop)
}
