//! Why a gateway's admin address says nothing, and what is to be done.

use std::io;

/// Why there is no answer. Displayed as `what happened; what to do`.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The URL's host is no name that is known here.
    #[error("the name has no address ({0}); is it right, and known here? {HERE}")]
    Name(io::Error),
    /// What should be a URL is none.
    #[error("{0}; a URL is as in http://127.0.0.1:9403, several with commas")]
    Url(String),
    /// Nobody listens there.
    #[error("cannot connect ({0}); is the gateway running, and is this its admin.address? {HERE}")]
    Connect(io::Error),
    /// Nothing came for too long.
    #[error("no answer within 5 s; see its log, and whether admin.address is what is asked. {HERE}")]
    Late,
    /// It came in pieces, and too slowly.
    #[error("its answer took more than a minute; ask again, or for less")]
    Slow,
    /// It ended before the answer did, or speaks no HTTP.
    #[error("the connection broke ({0}); see the gateway's log")]
    Broken(String),
    /// More than this process should hold.
    #[error("its answer is larger than 512 MiB; ask with curl and a smaller limit")]
    TooLarge,
    /// Another status than 200.
    #[error("it answers {code} {message:?}{}", remedy(*.code))]
    Refused { code: u16, message: String },
    /// JSON of something else.
    #[error("its answer cannot be read ({0}); is it an extender-gateway of this version?")]
    Malformed(serde_json::Error),
    /// The way through the apiserver ends there.
    #[error("the apiserver cannot be asked: {0}")]
    Apiserver(String),
    /// The labels fit no pod that runs.
    #[error("no pod of the gateway runs there; --gateway-selector says which labels it has")]
    NoPods,
}

/// What mostly helps.
const HERE: &str = "It listens on 127.0.0.1 unless admin.address says otherwise: ask from its machine or through \
                    `kubectl port-forward`, or let it listen on 0.0.0.0:9403, so that --gateway-namespace works, too";

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
