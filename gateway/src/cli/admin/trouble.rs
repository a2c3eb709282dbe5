//! Why a gateway's admin address does not respond, and remedies.

use std::io;

/// Why there is no answer. Displayed as `cause; remedy`.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    /// The URL's host cannot be resolved.
    #[error("cannot resolve the host name ({0}); check the spelling and this machine's DNS. {HERE}")]
    Name(io::Error),
    /// The text is not a valid URL.
    #[error("{0}; expected a URL such as http://127.0.0.1:9403, several separated by commas")]
    Url(String),
    /// Connection refused.
    #[error("cannot connect ({0}); check that the gateway runs and that this is its admin.address. {HERE}")]
    Connect(io::Error),
    /// The gateway was silent for too long.
    #[error("no answer within 5 s; check its log and admin.address. {HERE}")]
    Late,
    /// The response arrived in chunks, but too slowly.
    #[error("its answer took more than a minute; ask again, or for less")]
    Slow,
    /// The connection ended before the response did, or it is not HTTP.
    #[error("the connection broke ({0}); see the gateway's log")]
    Broken(String),
    /// The response is larger than this process should hold.
    #[error("response larger than 512 MiB; use curl with a smaller limit")]
    TooLarge,
    /// A status other than 200.
    #[error("HTTP {code} {message:?}{}", remedy(*.code))]
    Refused { code: u16, message: String },
    /// The JSON has another structure.
    #[error("cannot parse the response ({0}); is it an extender-gateway of this version?")]
    Malformed(serde_json::Error),
    /// The apiserver cannot reach the pod.
    #[error("cannot reach the apiserver: {0}")]
    Apiserver(String),
    /// No running pod matches the labels.
    #[error("no gateway pod found; check --gateway-selector")]
    NoPods,
}

/// The most common remedy.
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
