//! One request and its answer: only 200 and 201 are success. kube takes every status below 400 for success, and
//! reads a body of any size.

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::{Client, client::Body};
use serde::Deserialize;

use crate::whole_text;

/// The most bytes that are read of an error.
const LARGEST_ERROR: usize = 1 << 20;

/// The most characters of an error that is not a `Status` object.
const LONGEST_TEXT: usize = 200;

/// Why a request has no usable answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The answer is an error.
    #[error("{message}")]
    Refused {
        /// The HTTP status, or the code of an error event of a watch.
        code: u16,
        /// The message of the apiserver.
        message: String,
    },
    /// There is no answer, or it cannot be used.
    #[error("{0}")]
    Failed(String),
}

impl RequestError {
    /// The HTTP status of an answer that is an error.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            Self::Failed(_) => None,
        }
    }
}

impl From<kube::Error> for RequestError {
    fn from(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused { code: status.code, message: status.message },
            other => Self::Failed(whole_text(&other)),
        }
    }
}

/// The fields of a `metav1.Status` that are read, and those that identify one.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct StatusObject {
    pub(crate) kind: String,
    /// `Success` or `Failure`.
    pub(crate) status: String,
    pub(crate) message: String,
}

/// Sends a request; returns the body of its answer, unread.
///
/// # Errors
/// There is no answer, or its status is neither 200 nor 201.
pub async fn send(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Body, RequestError> {
    let request = request.map_err(|error| RequestError::Failed(whole_text(&error)))?;
    let (head, body) = client.send(request.map(Body::from)).await?.into_parts();
    if matches!(head.status, StatusCode::OK | StatusCode::CREATED) {
        return Ok(body);
    }
    let code = head.status.as_u16();
    let body = whole(body, LARGEST_ERROR).await.unwrap_or_default();
    Err(RequestError::Refused { code, message: message(&Response::from_parts(head, body)) })
}

/// Sends a request; returns its answer, of at most this many bytes.
///
/// # Errors
/// As for [`send`], or the answer is larger or ends early.
pub async fn read(
    client: &Client,
    request: Result<Request<Vec<u8>>, kube::core::request::Error>,
    largest: usize,
) -> Result<Bytes, RequestError> {
    whole(send(client, request).await?, largest).await
}

async fn whole(body: Body, largest: usize) -> Result<Bytes, RequestError> {
    let collected = Limited::new(body, largest).collect().await;
    collected.map(http_body_util::Collected::to_bytes).map_err(|error| {
        RequestError::Failed(if error.is::<LengthLimitError>() {
            format!("the answer has more than {} MiB", largest >> 20)
        } else {
            whole_text(&*error)
        })
    })
}

/// The message of a `Status`, or the HTTP status with the beginning of the body.
fn message(response: &Response<Bytes>) -> String {
    let status = serde_json::from_slice::<StatusObject>(response.body()).unwrap_or_default();
    if !status.message.is_empty() {
        return status.message;
    }
    let text: String = String::from_utf8_lossy(response.body()).trim().chars().take(LONGEST_TEXT).collect();
    let http = format!("HTTP status {}", response.status());
    if text.is_empty() { http } else { format!("{http}: {}", text.escape_debug()) }
}
