//! Why a gateway's admin address does not respond, and remedies.

use std::io;

/// Why there is no answer. Displayed as `what happened; what to do`.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The URL's host is no name that is known here.
    #[error("cannot resolve the host name ({0}); check the spelling and this machine's DNS. {HERE}")]
    Name(io::Error),
    /// What should be a URL is none.
    #[error("{0}; expected a URL such as http://127.0.0.1:9403, several separated by commas")]
    Url(String),
    /// Connection refused.
    #[error("cannot connect ({0}); check that the gateway runs and that this is its admin.address. {HERE}")]
    Connect(io::Error),
    /// Nothing came for too long.
    #[error("no answer within 5 s; check its log and admin.address. {HERE}")]
    Late,
    /// It came in pieces, and too slowly.
    #[error("its answer took more than a minute; ask again, or for less")]
    Slow,
    /// It ended before the answer did, or speaks no HTTP.
    #[error("the connection broke ({0}); see the gateway's log")]
    Broken(String),
    /// More than this process should hold.
    #[error("response larger than 512 MiB; use curl with a smaller limit")]
    TooLarge,
    /// Another status than 200.
    #[error("HTTP {code} {message:?}{}", remedy(*.code))]
    Refused { code: u16, message: String },
    /// JSON of something else.
    #[error("cannot parse the response ({0}); is it an extender-gateway of this version?")]
    Malformed(serde_json::Error),
    /// The way through the apiserver ends there.
    #[error("cannot reach the apiserver: {0}")]
    Apiserver(String),
    /// The labels fit no pod that runs.
    #[error("no gateway pod found; check --gateway-selector")]
    NoPods,
}

/// What mostly helps.
const HERE: &str = "By default it listens on 127.0.0.1: run this on its machine or through `kubectl port-forward`, or set \
                    admin.address: 0.0.0.0:9403 so that --gateway-namespace works";

fn remedy(code: u16) -> &'static str {
    match code {
        403 => {
            "; the account of the kubeconfig needs the rule {apiGroups: [\"\"], resources: [pods/proxy], verbs: [get]}"
        }
        404 => "; is it the admin address of an extender-gateway? The metrics and the extender have others",
        502..=504 => {
            "; through the apiserver, admin.address must be reachable from outside the pod, as 0.0.0.0:9403 is"
        }
        _ => "",
    }
}
