//! `GetInfo` answers, read for each source of nodes.

use std::{path::Path, sync::LazyLock};

use extender_gateway_backend::{
    handshake::read,
    info::{ApiVersion, ClusterTables, Info},
};
use extender_gateway_core::{FailureKind, PolicyVerb};
use extender_gateway_settings::{BackendSettings, Config, NodeSource};
use prost::Message;

use super::answers::one_line;

/// The longest text of a failure, in bytes.
const LONGEST_FAILURE: usize = 300;
/// All verbs in both states of the settings that a handshake is compared with.
const CONFIGURATION: &str = "
apiVersion: extender-gateway.io/v1alpha1
kind: GatewayConfiguration
extender: {address: 127.0.0.1:0}
binder: BuiltIn
nodes: {source: NamesOnly}
backends:
- {name: all, url: 'http://127.0.0.1:9', filter: {}, score: {weight: 1}, preempt: {}, bind: {}}
- {name: set, url: 'http://127.0.0.1:9', score: {weight: 2, normalize: Range, reversed: true}}
";

static BACKENDS: LazyLock<Vec<BackendSettings>> = LazyLock::new(|| {
    let config = Config::parse(CONFIGURATION, Path::new("."));
    config.unwrap_or_else(|mistakes| panic!("{mistakes}")).backends
});

/// A handshake is refused as a whole, or each verb has a plan or a sentence; read again, it is the same.
pub fn handshake(bytes: &[u8]) {
    for api in ApiVersion::ALL {
        of_package(bytes, api);
    }
}

fn of_package(bytes: &[u8], api: ApiVersion) {
    let handshake = match read(bytes, api) {
        Ok(handshake) => handshake,
        Err(failure) => {
            assert_eq!(failure.kind, FailureKind::Malformed);
            return one_line(&failure.detail, LONGEST_FAILURE);
        }
    };
    let encoded = handshake.response.encode_to_vec();
    assert_eq!(
        read(&encoded, ApiVersion::NEWEST).map(|read| read.response).as_ref(),
        Ok(&handshake.response)
    );
    for source in [NodeSource::NamesOnly, NodeSource::Request, NodeSource::Watch] {
        let tables = ClusterTables::of_source(source);
        for backend in &*BACKENDS {
            let info = Info::read(handshake.clone(), backend, &tables);
            let again = Info::read(handshake.clone(), backend, &tables);
            verbs(&info);
            assert_eq!(words(&info), words(&again));
            assert!(info.columns().eq(again.columns()), "the same views have the same columns");
        }
    }
}

fn words(info: &Info) -> [Option<(String, String)>; 7] {
    PolicyVerb::ALL.map(|verb| info.reads_in_words(verb))
}

/// Each verb can be used or says why not.
fn verbs(info: &Info) {
    for verb in PolicyVerb::ALL {
        match info.refusal(verb) {
            None => assert!(info.reads_in_words(verb).is_some()),
            Some(failure) => {
                assert_eq!(failure.kind, FailureKind::Unsuitable);
                assert!(!failure.detail.is_empty());
                one_line(&failure.detail, LONGEST_FAILURE);
            }
        }
    }
    if info.revision.is_empty() {
        assert!(
            info.remembered().iter().all(|(_, remembered)| !remembered),
            "without a revision nothing is remembered"
        );
    }
    assert!(info.most_request_bytes > 0);
}
