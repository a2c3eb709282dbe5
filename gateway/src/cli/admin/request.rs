//! One request to an admin address, its response, and the errors with their remedies.

use std::{error::Error, io, net::SocketAddr, pin::pin, time::Duration};

use bytes::Bytes;
use extender_apiserver::whole_text;
use http::{
    Method, Request, Response,
    header::{CONTENT_TYPE, HOST},
    request,
};
use http_body_util::{BodyExt, Full};
use hyper::{body::Body, client::conn::http1};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde::Deserialize;
use tokio::{net::TcpStream, time::timeout};

use crate::cli::apiserver::error_text;

/// How long a gateway may be silent: until it accepts the connection, until the response begins, and between its
/// chunks.
const SILENCE: Duration = Duration::from_secs(5);

/// The timeout of the complete response; that of the largest decision log takes seconds.
const TOTAL: Duration = Duration::from_mins(1);

/// The largest response, in bytes: a hundred times that of a decision log of the default size.
const MAX_BYTES: usize = 512 << 20;

/// The longest error message that is shown, in characters.
const MAX_MESSAGE: usize = 400;

/// What is requested of an admin address.
#[derive(Debug, Clone, Copy)]
pub(in crate::cli) struct AdminQuery<'q> {
    /// The path.
    pub(in crate::cli) path: &'q str,
    /// The JSON to post; `None`: a GET.
    pub(in crate::cli) posted: Option<&'q [u8]>,
}

impl<'q> AdminQuery<'q> {
    /// A GET.
    pub(in crate::cli) fn get(path: &'q str) -> Self {
        Self { path, posted: None }
    }

    fn head(self, path: &str) -> request::Builder {
        match self.posted {
            Some(_) => {
                Request::builder().method(Method::POST).uri(path).header(CONTENT_TYPE, "application/json")
            }
            None => Request::get(path),
        }
    }

    fn body(self) -> &'q [u8] {
        self.posted.unwrap_or_default()
    }
}

/// Why a gateway did not answer. Displayed as `cause; remedy`.
#[derive(Debug, thiserror::Error)]
pub(super) enum QueryError {
    #[error("cannot resolve the host name ({0}); check the spelling and this machine's DNS. {HERE}")]
    Name(io::Error),
    #[error("{0}; expected a URL such as http://127.0.0.1:9403, several separated by commas")]
    Url(String),
    #[error("cannot connect ({0}); check that the gateway runs and that this is its admin.address. {HERE}")]
    Connect(io::Error),
    #[error("no answer within 5 s; check its log and admin.address. {HERE}")]
    Late,
    /// The response arrived in chunks, but too slowly.
    #[error("its answer took more than a minute; ask again, or for less")]
    Slow,
    /// The connection ended before the response did, or it is not HTTP.
    #[error("the connection broke ({0}); see the gateway's log")]
    Broken(String),
    #[error("response larger than 512 MiB; use curl with a smaller limit")]
    TooLarge,
    #[error("HTTP {code} {message:?}{}", remedy(*.code))]
    Refused { code: u16, message: String },
    #[error("cannot parse the response ({0}); is it an extender-gateway of this version?")]
    Malformed(serde_json::Error),
    #[error("cannot reach the apiserver: {0}")]
    Apiserver(String),
    #[error("no gateway pod found; check --gateway-selector")]
    NoPods,
}

/// The most common remedy.
const HERE: &str = "By default it listens on 127.0.0.1: run this on its machine or through `kubectl port-forward`, or set \
                    admin.address: 0.0.0.0:9403 so that --gateway-namespace works";

fn remedy(code: u16) -> &'static str {
    match code {
        403 => {
            "; the account of the kubeconfig needs the rule {apiGroups: [\"\"], resources: [pods/proxy], verbs: [get]}, for the command backend also create"
        }
        404 => "; is it the admin address of an extender-gateway? The metrics and the extender have others",
        502..=504 => {
            "; through the apiserver, admin.address must be reachable from outside the pod, as 0.0.0.0:9403 is"
        }
        _ => "",
    }
}

/// Limits a step to the time that a gateway may be silent.
pub(super) async fn with_timeout<T>(work: impl Future<Output = T>) -> Result<T, QueryError> {
    timeout(SILENCE, work).await.map_err(|_| QueryError::Late)
}

/// Sends the request to this address.
pub(super) async fn direct(
    address: SocketAddr,
    host: &str,
    query: AdminQuery<'_>,
) -> Result<Vec<u8>, QueryError> {
    let stream = with_timeout(TcpStream::connect(address)).await?.map_err(QueryError::Connect)?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends with the response, or with the process.
    tokio::spawn(connection);
    let head = query.head(query.path).header(HOST, host);
    let request = head.body(Full::new(Bytes::copy_from_slice(query.body()))).map_err(broken)?;
    read(with_timeout(sender.send_request(request)).await?.map_err(broken)?).await
}

/// Sends the request through the apiserver, with this path.
pub(super) async fn proxied(
    client: &Client,
    path: &str,
    query: AdminQuery<'_>,
) -> Result<Vec<u8>, QueryError> {
    let body = kube::client::Body::from(query.body().to_vec());
    let request = query.head(path).body(body).map_err(broken)?;
    let response = with_timeout(client.send(request)).await?;
    read(response.map_err(|error| QueryError::Apiserver(error_text(error)))?).await
}

async fn read<B: Body<Data = Bytes>>(response: Response<B>) -> Result<Vec<u8>, QueryError>
where
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let code = response.status().as_u16();
    let (mut body, mut bytes) = (pin!(response.into_body()), Vec::new());
    let read_all = async {
        while let Some(frame) = with_timeout(body.frame()).await? {
            let data = frame.map_err(broken)?.into_data().unwrap_or_default();
            if bytes.len() + data.len() > MAX_BYTES {
                return Err(QueryError::TooLarge);
            }
            bytes.extend_from_slice(&data);
        }
        Ok(())
    };
    timeout(TOTAL, read_all).await.map_err(|_| QueryError::Slow)??;
    if code == 200 { Ok(bytes) } else { Err(QueryError::Refused { code, message: message(&bytes) }) }
}

/// The text of an error: a gateway's `error`, an apiserver's `message`, or the beginning of the body.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorMessage {
        #[serde(alias = "message")]
        error: String,
    }
    let text = serde_json::from_slice(body)
        .map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |ErrorMessage { error }| error);
    text.trim().chars().take(MAX_MESSAGE).collect()
}

fn broken(error: impl Into<Box<dyn Error + Send + Sync>>) -> QueryError {
    QueryError::Broken(whole_text(&*error.into()))
}
