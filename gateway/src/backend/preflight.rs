//! Performs a handshake with new settings before a running gateway uses them.
//!
//! Only the backend knows which `args` are valid, and reports it in the handshake. Settings that it rejects would
//! make it unavailable, while the current ones work.

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

/// How long a backend may take. One that does not respond has not rejected anything.
const PATIENCE: Duration = Duration::from_secs(3);

/// A backend that rejects its settings.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("backend {backend} rejected its new settings: {failure}")]
pub struct PreflightRefusal {
    /// The backend.
    pub backend: BackendName,
    /// Its answer.
    pub failure: BackendFailure,
}

/// The backends that reject their new settings, in the order of the file. Those that are unchanged from `used`, and
/// those that are not called, are skipped.
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

/// Whether both settings can share a connection.
fn is_in_use(used: &config::BackendSettings, new: &config::BackendSettings) -> bool {
    used.mode != Mode::Disabled && session::same(used, new)
}

async fn refusal(metrics: &Metrics, settings: &config::BackendSettings) -> Option<PreflightRefusal> {
    // A bug of the gateway is no rejection by the backend: the settings are used, and its failure policies apply.
    let ended = timeout(PATIENCE, contained(metrics, greet(settings))).await.ok()?.err()?;
    // By the contract, a handshake with wrong args ends like this.
    let refused = ended.is_invalid_argument();
    refused.then(|| PreflightRefusal { backend: settings.name.clone(), failure: ended.into() })
}

/// Performs one handshake on a separate connection.
async fn greet(settings: &config::BackendSettings) -> Result<(), RpcError> {
    let (requests, connection) = connect(settings, PATIENCE).await?;
    let paths = Paths::new(&settings.url);
    let mut asked = pin!(shake_hands(settings, &requests, &paths, PATIENCE));
    let answer = tokio::select! {
        answer = &mut asked => answer,
        // The answer may have arrived together with the end of the connection.
        _ = connection => asked.await,
    };
    answer.map(drop)
}
