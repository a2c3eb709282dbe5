//! The handshake with a backend: `GetInfo`. The content of the answer costs memory as long as the connection lives,
//! and work for each node, so its size is checked before it is decoded; SPEC.md has the same limits.
//!
//! Before a reload uses new settings, a handshake on a separate connection tries them ([`refusals`]): only the
//! backend knows which `args` are valid, and settings that it rejects would make it unavailable.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use extender_gateway_core::BackendFailure;
use extender_policy_api::v1alpha1::{GetInfoRequest, GetInfoResponse};
use futures_util::future::join_all;
use h2::client::SendRequest;
use prost::Message;
use tonic::Code;

use super::{
    connect::connect,
    containment::contained,
    grpc::{self, RpcError},
    info::API_VERSION,
    session::{Paths, same},
};
use crate::{
    config::{self, BackendName, Mode},
    contract::protobuf::{decoded, fields, malformed, put_prefix},
    observe::Metrics,
};

/// The largest answer, in bytes.
const LARGEST_ANSWER: usize = 1 << 20;
/// The timeout of a preflight. A backend that does not respond has not rejected anything.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(3);

/// The limit of a text or repeated field of `GetInfoResponse`.
struct FieldLimit {
    field: u32,
    name: &'static str,
    /// The most occurrences; `None` where the last one counts.
    most: Option<usize>,
    /// The most bytes of one occurrence.
    longest: usize,
}

const fn text(field: u32, name: &'static str) -> FieldLimit {
    FieldLimit { field, name, most: None, longest: 256 }
}

const LIMITS: [FieldLimit; 8] = [
    text(1, "name"),
    text(2, "version"),
    text(3, "revision"),
    text(4, "api_version"),
    FieldLimit { most: Some(32), ..text(5, "requires") },
    FieldLimit { most: Some(32), ..text(6, "services") },
    FieldLimit { most: Some(32), ..text(7, "verbs") },
    // No annotation key is longer: 253 bytes, a slash and 63 bytes.
    FieldLimit { most: Some(64), longest: 317, ..text(9, "annotation_prefixes") },
];

/// Performs the handshake with these settings.
///
/// # Errors
/// There is no valid answer: `handshake failed: …`.
pub(super) async fn handshake(
    settings: &config::BackendSettings,
    requests: &SendRequest<Bytes>,
    paths: &Paths,
    timeout: Duration,
) -> Result<GetInfoResponse, RpcError> {
    let request = GetInfoRequest {
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        api_versions: vec![API_VERSION.to_owned()],
        backend: settings.name.to_string(),
        args: settings.args.clone().unwrap_or_default(),
    };
    let mut framed = Vec::new();
    put_prefix(request.encoded_len(), &mut framed)?;
    request.encode_raw(&mut framed);
    let failed = |RpcError { status, failure }| {
        let detail = format!("handshake failed: {failure}");
        RpcError { status, failure: BackendFailure::new(failure.kind, detail) }
    };
    let limits = grpc::Limits { timeout, answer: LARGEST_ANSWER };
    let answer = grpc::unary((requests, &paths.info), [framed.into()], limits, None).await.map_err(failed)?;
    check_size(&answer).and_then(|()| decoded(answer)).map_err(|failure| failed(failure.into()))
}

/// Rejects an answer that exceeds the limits.
fn check_size(message: &[u8]) -> Result<(), BackendFailure> {
    let mut counts = [0; LIMITS.len()];
    for field in fields(message) {
        let (number, content) = field?;
        let Some(place) = LIMITS.iter().position(|limit| limit.field == number) else { continue };
        counts[place] += 1;
        let FieldLimit { name, longest, .. } = LIMITS[place];
        if let Some(len) = content.map(<[u8]>::len).filter(|len| *len > longest) {
            return Err(malformed(format!("{name} has {len} bytes, at most {longest} are accepted")));
        }
    }
    for (FieldLimit { name, most, .. }, count) in LIMITS.iter().zip(counts) {
        if let Some(most) = most.filter(|most| count > *most) {
            return Err(malformed(format!("there are {count} {name}, at most {most} are accepted")));
        }
    }
    Ok(())
}

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
    let is_called = |settings: &config::BackendSettings| settings.mode != Mode::Disabled;
    let is_changed =
        |new: &&config::BackendSettings| !used.iter().any(|used| is_called(used) && same(used, new));
    let changed = new.iter().filter(|new| is_called(new)).filter(is_changed);
    join_all(changed.map(|settings| refusal(metrics, settings))).await.into_iter().flatten().collect()
}

async fn refusal(metrics: &Metrics, settings: &config::BackendSettings) -> Option<PreflightRefusal> {
    // A bug of the gateway is no rejection by the backend: the settings are used, and its failure policies apply.
    let preflight = contained(metrics, preflight(settings));
    let error = tokio::time::timeout(PREFLIGHT_TIMEOUT, preflight).await.ok()?.err()?;
    // By the contract, a handshake with wrong args ends like this.
    let is_refusal = error.status == Some(Code::InvalidArgument);
    is_refusal.then(|| PreflightRefusal { backend: settings.name.clone(), failure: error.failure })
}

/// Performs one handshake on a separate connection.
async fn preflight(settings: &config::BackendSettings) -> Result<(), RpcError> {
    let (requests, connection) = connect(settings, PREFLIGHT_TIMEOUT).await?;
    let paths = Paths::new(&settings.url);
    let mut handshake = pin!(handshake(settings, &requests, &paths, PREFLIGHT_TIMEOUT));
    let answer = tokio::select! {
        answer = &mut handshake => answer,
        // The answer may have arrived together with the end of the connection.
        _ = connection => handshake.await,
    };
    answer.map(drop)
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use extender_policy_api::v1alpha1::{GetInfoResponse, VerbInfo};
    use prost::Message;

    use super::*;

    fn checked(info: &GetInfoResponse) -> Result<(), String> {
        check_size(&info.encode_to_vec()).map_err(|failure| failure.detail)
    }

    #[test]
    fn as_much_as_is_accepted_is_accepted_and_one_more_is_not() {
        let texts = |count: usize, len: usize| vec!["x".repeat(len); count];
        let full = GetInfoResponse {
            name: "x".repeat(256),
            version: "x".repeat(256),
            revision: "x".repeat(256),
            api_version: "x".repeat(256),
            requires: texts(32, 256),
            services: texts(32, 256),
            verbs: vec![VerbInfo::default(); 32],
            annotation_prefixes: texts(64, 317),
            ..GetInfoResponse::default()
        };
        assert_eq!(checked(&full), Ok(()));
        let mut more = full.clone();
        more.annotation_prefixes.push(String::new());
        assert_eq!(checked(&more), Err("there are 65 annotation_prefixes, at most 64 are accepted".into()));
        let mut longer = full.clone();
        longer.annotation_prefixes[63].push('x');
        assert_eq!(
            checked(&longer),
            Err("annotation_prefixes has 318 bytes, at most 317 are accepted".into())
        );
        let revision = GetInfoResponse { revision: "x".repeat(257), ..full.clone() };
        assert_eq!(checked(&revision), Err("revision has 257 bytes, at most 256 are accepted".into()));
        let verbs = GetInfoResponse { verbs: vec![VerbInfo::default(); 33], ..full };
        assert_eq!(checked(&verbs), Err("there are 33 verbs, at most 32 are accepted".into()));
    }

    #[test]
    fn a_handshake_of_nothing_many_times_costs_nothing() {
        for field in [5_u8, 6, 7, 9] {
            let message = [field << 3 | 2, 0].repeat(500_000);
            let cost = measure(|| assert!(check_size(&message).is_err()));
            assert!(cost.bytes_max < 1024, "{cost:?}");
        }
    }
}
