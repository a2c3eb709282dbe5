//! The handshake with a backend: `GetInfo`. The content of the answer costs memory as long as the connection lives,
//! and work for each node, so its size is checked before it is decoded; SPEC.md has the same limits.
//!
//! Before a reload uses new settings, a handshake on a separate connection tries them ([`refusals`]): only the
//! backend knows which `args` are valid, and settings that it rejects would make it unavailable.

use std::{pin::pin, time::Duration};

use bytes::Bytes;
use extender_gateway_contract::protobuf::{count_packed, fields, malformed};
use extender_gateway_core::BackendFailure;
use extender_gateway_observe::Metrics;
use extender_gateway_settings::{self as config, BackendName, Config, Mode, PodSource};
use extender_policy_api::limits::{self, HANDSHAKE_ENTRIES, HANDSHAKE_TEXT_BYTES, KEY_BYTES};
use extender_policy_api::v1beta1::{
    ChangedPart, GetInfoRequest, Known, NodePart, Normalization, PodCountBy, PodPart, Verb,
};
use futures_util::future::join_all;
use h2::client::SendRequest;
use tonic::Code;

use super::{
    changes,
    connect::{Target, connect},
    containment::contained,
    grpc::{self, RpcError},
    info::{ApiVersion, ClusterTables, HOOK_SERVICE, Handshake, Info, NODE_TABLE_SERVICE},
    introspection, outcomes,
    session::{HandshakeKey, info_path},
};

/// The timeout of a preflight. A backend that does not respond has not rejected anything.
const PREFLIGHT_TIMEOUT: Duration = Duration::from_secs(3);

/// The limit of a text or repeated field of `GetInfoResponse`.
struct FieldLimit {
    field: u32,
    name: &'static str,
    /// The most occurrences; `None` where the last one counts.
    most: Option<usize>,
    /// The most bytes of one occurrence, if limited.
    longest: Option<usize>,
}

const fn text(field: u32, name: &'static str, longest: usize) -> FieldLimit {
    FieldLimit { field, name, most: None, longest: Some(longest) }
}

const fn list(field: u32, name: &'static str, most: usize, longest: usize) -> FieldLimit {
    FieldLimit { field, name, most: Some(most), longest: Some(longest) }
}

const LIMITS: [FieldLimit; 11] = [
    text(1, "name", HANDSHAKE_TEXT_BYTES),
    text(2, "version", HANDSHAKE_TEXT_BYTES),
    text(3, "revision", HANDSHAKE_TEXT_BYTES),
    text(4, "api_version", HANDSHAKE_TEXT_BYTES),
    list(5, "requires", HANDSHAKE_ENTRIES, HANDSHAKE_TEXT_BYTES),
    list(6, "services", HANDSHAKE_ENTRIES, HANDSHAKE_TEXT_BYTES),
    FieldLimit { field: VERBS, name: "verbs", most: Some(HANDSHAKE_ENTRIES), longest: None },
    list(9, "annotation_prefixes", ANNOTATION_PREFIXES, KEY_BYTES),
    // Each text in these has a limit of its own. Of a message that occurs twice the lists are joined.
    list(11, "introspection", limits::PATHS, limits::PATH_ENTRY_BYTES),
    list(12, "controllers", 1, limits::CONTROLLERS_BYTES),
    text(13, "rejected_configuration", limits::REJECTED_CONFIGURATION_BYTES),
];

/// Of v1alpha1: the entries of `annotation_prefixes`.
const ANNOTATION_PREFIXES: usize = 64;

/// `GetInfoResponse.verbs`, whose length [`DeclaredSize`] limits.
const VERBS: u32 = 7;

/// How the text of a failed handshake begins.
pub(super) const FAILED: &str = "handshake failed";

/// Performs the handshake with these settings, in the first of these packages that the backend serves, for which each has this
/// timeout.
///
/// # Errors
/// There is no valid answer: `handshake failed: …`.
pub(super) async fn handshake(
    settings: &config::BackendSettings,
    requests: &SendRequest<Bytes>,
    packages: &[ApiVersion],
    timeout: Duration,
) -> Result<(ApiVersion, Handshake), RpcError> {
    let request = GetInfoRequest {
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        api_versions: ApiVersion::ALL.map(|api| api.package().to_owned()).into(),
        backend: settings.name.to_string(),
        args: settings.args.clone().unwrap_or_default(),
        known: Some(known()),
    };
    let failed = |error: RpcError| {
        let failure = &error.failure;
        let detail = format!("{FAILED}: {failure}");
        RpcError { failure: BackendFailure::new(failure.kind, detail), ..error }
    };
    let limits = grpc::Limits { timeout, answer: limits::INFO_RESPONSE_BYTES };
    let mut unserved = None;
    for api in packages {
        match grpc::ask(requests, &info_path(&settings.url, *api), &request, limits).await {
            Ok(answer) => {
                return match read(&answer, *api) {
                    Ok(handshake) => Ok((*api, handshake)),
                    Err(failure) => Err(failed(failure.into())),
                };
            }
            // The error for the newest package is the one that counts: a backend will rather get that than an older one.
            Err(error) if error.is_unimplemented() => _ = unserved.get_or_insert(error),
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(unserved.expect("at least one package is asked for")))
}

/// What this gateway knows of what a backend can declare.
fn known() -> Known {
    /// The numbers of an enumeration from 1 on: they have no gaps.
    fn numbers<E: TryFrom<i32>>() -> Vec<i32> {
        (1..=i32::MAX).take_while(|number| E::try_from(*number).is_ok()).collect()
    }
    Known {
        verbs: numbers::<Verb>(),
        pod_parts: numbers::<PodPart>(),
        node_parts: numbers::<NodePart>(),
        pod_counts: numbers::<PodCountBy>(),
        changes: numbers::<ChangedPart>(),
        normalizations: numbers::<Normalization>(),
        features: Vec::new(),
        services: [
            HOOK_SERVICE,
            introspection::SERVICE_NAME,
            NODE_TABLE_SERVICE,
            outcomes::SERVICE_NAME,
            changes::SERVICE_NAME,
        ]
        .map(str::to_owned)
        .into(),
    }
}

/// Reads an answer in this package.
///
/// # Errors
/// It exceeds the limits, or is not protobuf.
pub fn read(answer: &[u8], api: ApiVersion) -> Result<Handshake, BackendFailure> {
    check_size(answer).and_then(|()| Handshake::read(answer, api))
}

/// Rejects an answer that exceeds the limits.
fn check_size(message: &[u8]) -> Result<(), BackendFailure> {
    let mut counts = [0; LIMITS.len()];
    for field in fields(message) {
        let (number, content) = field?;
        let Some(place) = LIMITS.iter().position(|limit| limit.field == number) else { continue };
        counts[place] += 1;
        let FieldLimit { name, longest, .. } = LIMITS[place];
        let Some(content) = content else { continue };
        match longest {
            Some(longest) => check_length(name, content.len(), longest)?,
            None => DeclaredSize::default().add(content, Level::Verb)?,
        }
    }
    let mut counted = LIMITS.iter().zip(counts);
    counted.try_for_each(|(FieldLimit { name, most, .. }, count)| check_count(name, count, *most))
}

fn check_length(name: &str, len: usize, longest: usize) -> Result<(), BackendFailure> {
    if len <= longest {
        return Ok(());
    }
    Err(malformed(format!("{name} has {len} bytes, at most {longest} are accepted")))
}

fn check_count(name: &str, count: usize, most: Option<usize>) -> Result<(), BackendFailure> {
    match most {
        Some(most) if count > most => {
            Err(malformed(format!("there are {count} {name}, at most {most} are accepted")))
        }
        _ => Ok(()),
    }
}

/// The size of what a verb declares that it reads.
#[derive(Debug, Default)]
struct DeclaredSize {
    parts: usize,
    keys: usize,
    counts: usize,
}

/// The messages that a declaration consists of.
#[derive(Debug, Clone, Copy)]
enum Level {
    /// `VerbInfo`.
    Verb,
    /// `Reads`.
    Reads,
    /// `PodReads` or `NodeReads`.
    Object,
    /// `MapReads`.
    Map,
    /// `PodCountReads` or `TopologyCountReads`.
    Count,
}

impl DeclaredSize {
    /// More than a verb may declare, so that the sentence about that names the verb.
    const MOST_DECODED_COUNTS: usize = 64;

    fn add(&mut self, message: &[u8], level: Level) -> Result<(), BackendFailure> {
        for field in fields(message) {
            match (level, field?) {
                (Level::Verb, (11, Some(reads))) => self.add(reads, Level::Reads)?,
                (Level::Reads, (2 | 3, Some(object))) => self.add(object, Level::Object)?,
                (Level::Object, (1, parts)) => self.parts += parts.map_or(1, count_packed),
                (Level::Object, (2 | 3, Some(map))) => self.add(map, Level::Map)?,
                (Level::Object, (4, Some(count))) => {
                    self.counts += 1;
                    self.add(count, Level::Count)?;
                }
                (Level::Count, (2 | 3, Some(key))) => {
                    check_length("a key of counts in reads", key.len(), KEY_BYTES)?;
                }
                (Level::Map, (field @ (1 | 2), Some(key))) => {
                    self.keys += 1;
                    let name = if field == 1 { "a key in reads" } else { "a prefix in reads" };
                    check_length(name, key.len(), KEY_BYTES)?;
                }
                _ => {}
            }
        }
        check_count("parts in reads", self.parts, Some(limits::READ_PARTS))?;
        check_count("counts in reads", self.counts, Some(Self::MOST_DECODED_COUNTS))?;
        check_count("keys and prefixes in reads", self.keys, Some(limits::READ_KEYS))
    }
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

/// The backends that cannot be used with the new configuration although they answer, in the order of the file. Those that
/// are unchanged are skipped, unless pods are no longer watched: a backend may need them. Those that are not called are
/// skipped, too.
pub async fn refusals(metrics: &Metrics, new: &Config, used: &Config) -> Vec<PreflightRefusal> {
    let is_called = |settings: &config::BackendSettings| settings.mode != Mode::Disabled;
    let used_keys: Vec<_> =
        used.backends.iter().filter(|used| is_called(used)).map(HandshakeKey::from).collect();
    let is_changed = |new: &&config::BackendSettings| !used_keys.contains(&HandshakeKey::from(*new));
    let tables = ClusterTables::of_config(new);
    let loses_pods = used.pod_source() == PodSource::Watch && new.pod_source() != PodSource::Watch;
    let checked = new.backends.iter().filter(|new| is_called(new) && (loses_pods || is_changed(new)));
    let refusals =
        join_all(checked.map(|settings| refusal(metrics, settings, &tables, is_changed(&settings))));
    refusals.await.into_iter().flatten().collect()
}

async fn refusal(
    metrics: &Metrics,
    settings: &config::BackendSettings,
    tables: &ClusterTables,
    is_changed: bool,
) -> Option<PreflightRefusal> {
    // A bug of the gateway is no rejection by the backend: the settings are used, and its failure policies apply.
    // Boxed: it is large, and rare.
    let preflight = Box::pin(contained(metrics, preflight(settings)));
    let failure = match tokio::time::timeout(PREFLIGHT_TIMEOUT, preflight).await.ok()? {
        Ok(handshake) => {
            let info = Info::read(handshake, settings, tables);
            settings.verbs().find_map(|verb| info.refusal(verb).cloned())?
        }
        // By the contract, a handshake with wrong args ends like this. Args that the backend has already are in use.
        Err(error) if is_changed && error.status == Some(Code::InvalidArgument) => error.failure,
        Err(_) => return None,
    };
    Some(PreflightRefusal { backend: settings.name.clone(), failure })
}

/// Performs one handshake on a separate connection.
///
/// # Errors
/// The backend cannot be reached, does not respond in time, or rejects its `args` (`INVALID_ARGUMENT`).
pub async fn preflight(settings: &config::BackendSettings) -> Result<Handshake, RpcError> {
    let (requests, connection) = connect(settings, Target::Host, PREFLIGHT_TIMEOUT).await?;
    let mut handshake = pin!(handshake(settings, &requests, &ApiVersion::ALL, PREFLIGHT_TIMEOUT));
    let (_, handshake) = tokio::select! {
        answer = &mut handshake => answer?,
        // The answer may have arrived together with the end of the connection.
        _ = connection => handshake.await?,
    };
    Ok(handshake)
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use extender_gateway_contract::protobuf::put_bytes;
    use extender_policy_api::v1beta1::{
        Controllers, GetInfoResponse, IntrospectionPath, MapReads, NodeReads, PodCountReads, PodReads, Reads,
        TopologyCountReads, VerbInfo,
    };
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
            introspection: vec![
                IntrospectionPath { path: "x".repeat(512), description: "x".repeat(506) };
                64
            ],
            controllers: Some(Controllers {
                names: texts(32, 63),
                lease: "x".repeat(320),
                identity: "x".repeat(253),
                leader: "x".repeat(253),
            }),
            rejected_configuration: "x".repeat(1 << 10),
            ..GetInfoResponse::default()
        };
        assert_eq!(checked(&full), Ok(()));
        let mut paths = full.clone();
        paths.introspection.push(IntrospectionPath::default());
        assert_eq!(checked(&paths), Err("there are 65 introspection, at most 64 are accepted".into()));
        paths.introspection.truncate(1);
        paths.introspection[0].path.push('x');
        assert_eq!(checked(&paths), Err("introspection has 1025 bytes, at most 1024 are accepted".into()));
        let mut names = full.clone();
        names.controllers.get_or_insert_default().names.extend(texts(20, 63));
        assert_eq!(checked(&names), Err("controllers has 4215 bytes, at most 4096 are accepted".into()));
        let once = GetInfoResponse { controllers: full.controllers.clone(), ..GetInfoResponse::default() };
        let twice = check_size(&once.encode_to_vec().repeat(2)).map_err(|failure| failure.detail);
        assert_eq!(twice, Err("there are 2 controllers, at most 1 are accepted".into()));
        let prefixes = |count: usize, len: usize| {
            let mut info = full.encode_to_vec();
            (0..count).for_each(|_| put_bytes(9, "x".repeat(len).as_bytes(), &mut info));
            check_size(&info).map_err(|failure| failure.detail)
        };
        assert_eq!(prefixes(64, 317), Ok(()));
        assert_eq!(prefixes(65, 1), Err("there are 65 annotation_prefixes, at most 64 are accepted".into()));
        assert_eq!(
            prefixes(1, 318),
            Err("annotation_prefixes has 318 bytes, at most 317 are accepted".into())
        );
        let revision = GetInfoResponse { revision: "x".repeat(257), ..full.clone() };
        assert_eq!(checked(&revision), Err("revision has 257 bytes, at most 256 are accepted".into()));
        let verbs = GetInfoResponse { verbs: vec![VerbInfo::default(); 33], ..full };
        assert_eq!(checked(&verbs), Err("there are 33 verbs, at most 32 are accepted".into()));
    }

    #[test]
    fn a_declaration_of_more_than_a_verb_can_read_is_refused_before_it_is_decoded() {
        let keys = |count: usize, len: usize| MapReads {
            keys: vec!["x".repeat(len); count],
            prefixes: vec!["x".repeat(len); count],
        };
        let declaring = |parts: usize, keys: MapReads| {
            let pod = PodReads { parts: vec![1; parts], labels: Some(keys.clone()), ..PodReads::default() };
            let node = NodeReads {
                parts: vec![1; parts],
                labels: None,
                annotations: Some(keys),
                ..NodeReads::default()
            };
            let reads = Reads { pod: Some(pod), node: Some(node) };
            let verb = VerbInfo { reads: Some(reads), ..VerbInfo::default() };
            GetInfoResponse { verbs: vec![verb; 2], ..GetInfoResponse::default() }
        };
        assert_eq!(checked(&declaring(32, keys(250, 317))), Ok(()), "for each verb");
        let more = checked(&declaring(32, keys(251, 1)));
        assert_eq!(more, Err("there are 1004 keys and prefixes in reads, at most 1000 are accepted".into()));
        let longer = checked(&declaring(1, keys(1, 318)));
        assert_eq!(longer, Err("a key in reads has 318 bytes, at most 317 are accepted".into()));
        let parts = checked(&declaring(33, keys(0, 0)));
        assert_eq!(parts, Err("there are 66 parts in reads, at most 64 are accepted".into()));
        let counting = |count: usize, len: usize| {
            let counts = vec![PodCountReads { label: "x".repeat(len), ..PodCountReads::default() }; count];
            let topology_key = "x".repeat(len);
            let over_topologies =
                vec![TopologyCountReads { topology_key, ..TopologyCountReads::default() }; count];
            let pod = PodReads { topology_counts: over_topologies, ..PodReads::default() };
            let node = NodeReads { pod_counts: counts, ..NodeReads::default() };
            let reads = Reads { pod: Some(pod), node: Some(node) };
            let verb = VerbInfo { reads: Some(reads), ..VerbInfo::default() };
            GetInfoResponse { verbs: vec![verb], ..GetInfoResponse::default() }
        };
        assert_eq!(checked(&counting(32, 317)), Ok(()));
        let counts = checked(&counting(33, 1));
        assert_eq!(counts, Err("there are 65 counts in reads, at most 64 are accepted".into()));
        let longer = checked(&counting(1, 318));
        assert_eq!(longer, Err("a key of counts in reads has 318 bytes, at most 317 are accepted".into()));
        // A message that occurs several times is one message.
        let nested = |content: &[u8], field| {
            let mut message = Vec::new();
            put_bytes(field, content, &mut message);
            message
        };
        let [parts, empty_key, count] = [[8, 1], [10, 0], [34, 0]];
        for content in [nested(&parts, 2), nested(&nested(&empty_key, 2), 2), nested(&count, 3)] {
            let reads = nested(&content.repeat(100_000), 11);
            let message = nested(&reads, VERBS);
            let cost = measure(|| assert!(check_size(&message).is_err()));
            assert!(cost.bytes_max < 1024, "{cost:?}");
        }
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
