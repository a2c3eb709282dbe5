//! One request and its answer. Only the statuses 200 and 201 are success, and bodies are bounded; for kube every status
//! below 400 is success, and it reads a body of any size.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use k8s_openapi::jiff::Timestamp;
use kube::{Client, client::Body};
use serde::Deserialize;

use crate::{bounded, clock, text::utf8_body, unreachable::is_connect, whole_text};

/// The largest error body in bytes.
const LARGEST_ERROR: usize = 1 << 20;

/// The most characters of an error body that is not a `Status`.
const LONGEST_TEXT: usize = 200;

/// Why a request has no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The apiserver rejected the request with a `Status`.
    #[error("{message}")]
    Refused {
        /// The HTTP status, or the code of an error event of a watch.
        code: u16,
        /// The beginning of the apiserver's message.
        message: String,
    },
    /// The answer is an error without a `Status`, perhaps from a proxy.
    #[error("{message}")]
    NotStatus {
        /// The HTTP status.
        code: u16,
        /// The HTTP status and the beginning of the answer.
        message: String,
    },
    /// There is no connection, so the apiserver did not receive the request.
    #[error("{0}")]
    Unreachable(String),
    /// The answer has more than this number of bytes.
    #[error("the answer has more than {} MiB", .0 >> 20)]
    TooLarge(usize),
    /// There is no answer, or it cannot be used.
    #[error("{0}")]
    Failed(String),
}

impl RequestError {
    /// The HTTP status of an answer that is an error.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } | Self::NotStatus { code, .. } => Some(*code),
            Self::Unreachable(_) | Self::TooLarge(_) | Self::Failed(_) => None,
        }
    }

    /// Whether the request certainly had no effect, and will have none.
    pub fn excludes_an_effect(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            // After a timeout and an error of the server, etcd may have stored what the apiserver could not confirm.
            Self::Refused { code, .. } => (400..500).contains(code) && *code != 408,
            // An apiserver with too many requests answers without a Status, before it looks at the request. Any other
            // answer may be that of a proxy, which gave up while the apiserver was at work.
            Self::NotStatus { code, .. } => *code == 429,
            Self::TooLarge(_) | Self::Failed(_) => false,
        }
    }
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => {
                Self::Refused { code: status.code, message: bounded(&status.message) }
            }
            kube::Error::Service(error) if is_connect(&*error) => Self::Unreachable(whole_text(&*error)),
            other if is_connect(&other) => Self::Unreachable(whole_text(&other)),
            other => Self::Failed(whole_text(&other)),
        }
    }
}

/// The fields of a `metav1.Status` that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatusObject {
    pub(crate) kind: String,
    /// `Success` or `Failure`.
    pub(crate) status: String,
    pub(crate) message: String,
}

/// Sends a request; returns the unread body of its answer.
///
/// # Errors
/// There is no answer, or its status is neither 200 nor 201.
pub async fn send(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Body, RequestError> {
    let request = request.map_err(|error| RequestError::Failed(whole_text(&error)))?;
    let sent = Timestamp::now();
    let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
    clock::observe(sent, &head.headers);
    if matches!(head.status, StatusCode::OK | StatusCode::CREATED) {
        return Ok(body);
    }
    let body = whole(body, LARGEST_ERROR).await.unwrap_or_default();
    Err(refusal(&Response::from_parts(head, body)))
}

/// Sends a request; returns its answer, of at most this many bytes, as UTF-8.
///
/// # Errors
/// As for [`send`], or the answer is larger or ends early.
pub async fn read(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    largest: usize,
) -> Result<Bytes, RequestError> {
    whole(send(client, request).await?, largest).await.map(utf8_body)
}

async fn whole(body: Body, largest: usize) -> Result<Bytes, RequestError> {
    let collected = Limited::new(body, largest).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            RequestError::TooLarge(largest)
        } else {
            RequestError::Failed(whole_text(&*error))
        }
    })
}

/// An answer that is an error.
fn refusal(response: &Response<Bytes>) -> RequestError {
    let code = response.status().as_u16();
    let StatusObject { kind, message, .. } = serde_json::from_slice(response.body()).unwrap_or_default();
    if kind == "Status" && !message.is_empty() {
        return RequestError::Refused { code, message: bounded(&message) };
    }
    let text: String = String::from_utf8_lossy(response.body()).trim().chars().take(LONGEST_TEXT).collect();
    let http = format!("HTTP status {}", response.status());
    let message = if text.is_empty() { http } else { format!("{http}: {}", text.escape_debug()) };
    if kind == "Status" {
        RequestError::Refused { code, message }
    } else {
        RequestError::NotStatus { code, message }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use kube::api::GetParams;

    use super::*;

    #[test]
    fn only_a_refusal_by_the_apiserver_excludes_an_effect() {
        let message = || "no".to_owned();
        let codes = [400, 403, 404, 408, 409, 422, 429, 500, 503, 504];
        let refused =
            codes.map(|code| RequestError::Refused { code, message: message() }.excludes_an_effect());
        assert_eq!(refused, [true, true, true, false, true, true, true, false, false, false]);
        for code in codes {
            let error = RequestError::NotStatus { code, message: message() };
            assert_eq!(error.excludes_an_effect(), code == 429, "{code}");
        }
        assert!(RequestError::Unreachable(message()).excludes_an_effect());
        assert!(!RequestError::Failed(message()).excludes_an_effect());
    }

    #[tokio::test]
    async fn a_refused_connection_is_told_from_other_failures() {
        let address = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).unwrap();
        let config = kube::Config::new(format!("http://{address}").parse().unwrap());
        let client = crate::client(config, crate::ClientTimeouts::default()).await.unwrap();
        let request = kube::core::Request::new("/api").get("x", &GetParams::default());
        let answer = read(&client, request, 1).await;
        assert!(matches!(answer, Err(RequestError::Unreachable(_))), "{answer:?}");
    }
}
