//! One request to an admin address, its response, and the errors with their remedies.

use std::{collections::BTreeMap, error::Error, io, net::SocketAddr, pin::pin, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_apiserver::whole_text;
use extender_gateway_settings::BackendUrl;
use extender_gateway_tls::{PemError, handshake_text, tls_error};
use http::{
    Method, Request, Response,
    header::{AUTHORIZATION, CONTENT_TYPE, HOST},
    request,
    uri::Scheme,
};
use http_body_util::{BodyExt, Full};
use hyper::{body::Body, client::conn::http1};
use hyper_util::rt::TokioIo;
use kube::Client;
use rustls::{CertificateError, ClientConfig, Error as TlsError, InvalidMessage, pki_types::ServerName};
use serde::Deserialize;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsConnector;

use super::access::Access;

use crate::apiserver::error_text;

/// How an address with TLS answers HTTP without it.
const REASON: &str = "x-extender-gateway-error";
const TLS_REQUIRED: &str = "extender-gateway: this address requires TLS";

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
pub(crate) struct AdminQuery<'q> {
    /// The path.
    pub path: &'q str,
    /// The JSON to post; `None`: a GET.
    pub posted: Option<&'q [u8]>,
}

impl<'q> AdminQuery<'q> {
    /// A GET.
    pub(crate) fn get(path: &'q str) -> Self {
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
    #[error("HTTP {code} {message:?}{}", way.remedy(*.code, message))]
    Refused { code: u16, message: String, way: Way },
    /// Below `/apis/v1`, where errors have the form of Koordinator.
    #[error("HTTP {code}: {message}")]
    NotShown { code: u16, message: String },
    #[error(
        "the address requires TLS; set --tls-ca to a file with the CA of the gateway's certificate, and with --gateway use an https URL"
    )]
    NeedsTls,
    #[error("{0} is of no use: no URL is https")]
    NotHttps(&'static str),
    #[error("an https URL needs --tls-ca FILE with the CA of the gateway's certificate")]
    NoAuthority,
    #[error("the address speaks HTTP without TLS; use an http URL, or leave out the options for TLS")]
    WithoutTls,
    #[error("TLS: {0}")]
    Tls(String),
    #[error(
        "a token is not sent to {0} without TLS; use an https URL, or one of this machine as through `kubectl port-forward`"
    )]
    TokenInTheClear(SocketAddr),
    #[error("{0}")]
    File(PemError),
    #[error("the token cannot be used: {0}")]
    Token(String),
    /// Of several gateways.
    #[error("{0}")]
    Access(Arc<Self>),
    #[error("cannot parse the response ({0}); is it an extender-gateway of this version?")]
    Malformed(serde_json::Error),
    #[error("cannot reach the apiserver: {0}")]
    Apiserver(String),
    #[error("no gateway pod found; check --gateway-selector")]
    NoPods,
    /// The apiserver opens no stream to the pod.
    #[error("cannot forward a port to the pod: {why}{remedy}")]
    NotForwarded { why: String, remedy: &'static str },
    /// The stream to the pod is open, but not the connection inside the pod.
    #[error(
        "cannot connect inside the pod: {0}; check that the gateway runs, that --admin-port is the port of its admin.address, \
         and that this address is 127.0.0.1 or 0.0.0.0"
    )]
    InPod(String),
    /// Both ways to a pod have failed.
    #[error("{forwarded}. Through the proxy of the apiserver: {proxied}")]
    BothWays { forwarded: Box<Self>, proxied: Box<Self> },
}

/// The most common remedy.
const HERE: &str = "By default it listens on 127.0.0.1: run this on its machine, or use --gateway-namespace, which forwards a \
                    port to each replica";

/// How a gateway is queried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// At its address, or through a forwarded port.
    Direct,
    /// Through the apiserver's proxy for pods.
    Proxied,
}

impl Way {
    fn remedy(self, code: u16, message: &str) -> &'static str {
        let needs_certificate = message.starts_with("no client certificate");
        match (self, code) {
            (Self::Direct, 401) => {
                "; set --token-file, for example to a file with the output of `kubectl create token NAME`"
            }
            (Self::Direct, 403) if needs_certificate => "; set --tls-cert and --tls-key",
            (Self::Proxied, 401) => "; this way passes no token and no certificate on",
            (_, 404) => {
                "; is it the admin address of an extender-gateway? The metrics and the extender have others"
            }
            _ => "",
        }
    }
}

/// Limits a step to the time that a gateway may be silent.
pub(super) async fn with_timeout<T>(work: impl Future<Output = T>) -> Result<T, QueryError> {
    timeout(SILENCE, work).await.map_err(|_| QueryError::Late)
}

/// Sends the request to this address of the URL's host.
pub(super) async fn direct(
    url: &BackendUrl,
    address: SocketAddr,
    access: &Access,
    query: AdminQuery<'_>,
) -> Result<Vec<u8>, QueryError> {
    let is_secure = *url.scheme() == Scheme::HTTPS;
    if access.authorization.is_some() && !is_secure && !address.ip().is_loopback() {
        return Err(QueryError::TokenInTheClear(address));
    }
    if is_secure && access.tls.is_none() {
        return Err(QueryError::NoAuthority);
    }
    let tls = access.tls.clone().filter(|_| is_secure);
    let stream = with_timeout(TcpStream::connect(address)).await?.map_err(QueryError::Connect)?;
    over(stream, Peer { authority: &url.authority(), host: url.host(), tls }, access, query).await
}

/// What a stream leads to.
pub(super) struct Peer<'p> {
    /// The value of the header `Host`.
    pub(super) authority: &'p str,
    /// The name that a certificate must have, unless the options say another.
    pub(super) host: &'p str,
    /// `None`: without TLS.
    pub(super) tls: Option<Arc<ClientConfig>>,
}

/// Sends the request over this stream.
pub(super) async fn over<S>(
    stream: S,
    peer: Peer<'_>,
    access: &Access,
    query: AdminQuery<'_>,
) -> Result<Vec<u8>, QueryError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut head = query.head(query.path).header(HOST, peer.authority);
    if let Some(authorization) = &access.authorization {
        head = head.header(AUTHORIZATION, authorization);
    }
    let request = head.body(Full::new(Bytes::copy_from_slice(query.body()))).map_err(broken)?;
    let Some(config) = peer.tls else { return exchange(stream, request).await };
    let host = access.server_name.as_deref().unwrap_or(peer.host).to_owned();
    let name = ServerName::try_from(host).map_err(|_| QueryError::Tls(NOT_A_NAME.to_owned()))?;
    let connected = with_timeout(TlsConnector::from(config).connect(name, stream)).await?;
    exchange(connected.map_err(|error| tls(&error))?, request).await
}

const NOT_A_NAME: &str = "--tls-server-name is neither a DNS name nor an IP address";

/// Sends the request on this connection.
async fn exchange<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Vec<u8>, QueryError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // It ends with the response, or with the process.
    tokio::spawn(connection);
    read(with_timeout(sender.send_request(request)).await?.map_err(broken)?, Way::Direct).await
}

/// Why a TLS handshake failed, with the remedy.
fn tls(error: &io::Error) -> QueryError {
    let remedy = match tls_error(error) {
        Some(TlsError::InvalidMessage(InvalidMessage::InvalidContentType)) => return QueryError::WithoutTls,
        Some(TlsError::InvalidCertificate(invalid)) => match invalid {
            CertificateError::UnknownIssuer => "; the file of --tls-ca must contain the CA that signed it",
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "; set --tls-server-name to one of its names"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "; renew the file of admin.tls.certFile, which the gateway reads again by itself, or set this machine's clock"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "; compare the clock of this machine with that of the one that issued it"
            }
            _ => "",
        },
        _ => "",
    };
    QueryError::Tls(format!("{}{remedy}", handshake_text(error)))
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
    read(response.map_err(|error| QueryError::Apiserver(error_text(error)))?, Way::Proxied).await
}

async fn read<B: Body<Data = Bytes>>(response: Response<B>, way: Way) -> Result<Vec<u8>, QueryError>
where
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let code = response.status().as_u16();
    if code == 400 && response.headers().get(REASON).is_some_and(|reason| reason == TLS_REQUIRED) {
        return Err(QueryError::NeedsTls);
    }
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
    let message = || message(&bytes);
    match code {
        200 => Ok(bytes),
        _ if is_not_shown(&bytes) => Err(QueryError::NotShown { code, message: message() }),
        _ => Err(QueryError::Refused { code, message: message(), way }),
    }
}

/// Whether an error is of the form of `/apis/v1`: it has nothing to do with how the gateway was reached.
fn is_not_shown(body: &[u8]) -> bool {
    let fields = serde_json::from_slice::<BTreeMap<String, String>>(body).unwrap_or_default();
    fields.len() == 1 && fields.contains_key("message")
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
    let text = whole_text(&*error.into());
    // With TLS 1.3 a client learns from its first read that its certificate is rejected.
    if let Some(at) = text.find("received fatal alert") {
        let alert = &text[at..];
        let remedy = if alert.contains("UnknownCA") {
            "the certificate of --tls-cert must be signed by a CA of admin.tls.clientCAFile"
        } else if alert.contains("CertificateExpired") {
            "renew the certificate of --tls-cert"
        } else {
            "its log says why"
        };
        return QueryError::Tls(format!("the gateway rejected the client certificate ({alert}); {remedy}"));
    }
    QueryError::Broken(text)
}
