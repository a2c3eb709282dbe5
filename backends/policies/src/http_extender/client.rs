//! Sends requests to one extender, over connections that are kept. HTTP/1.1, and HTTP/2 where the server of an
//! `https` URL offers it. Each extender has connections of its own, as in kube-scheduler. The texts of failures have
//! nothing that changes between attempts.

use std::{error::Error, io, time::Duration};

use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use extender_policy_sdk::{CannotAnswer, NotReady, Unanswered, trace};
use http::{
    Request, StatusCode, Uri,
    header::{CONTENT_TYPE, USER_AGENT},
};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{Client as Connections, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::time::timeout;

use super::{
    args::{Entry, Tls, Verification},
    tls,
};

/// A reply may have this many bytes, or twice those of the request: with `nodeCacheCapable: false` it has the nodes of
/// the call.
const LARGEST_REPLY: usize = 64 << 20;

/// How long an unused connection is kept: as long as kube-scheduler keeps it, so that a server's idle timeout that
/// suits one suits the other.
const IDLE: Duration = Duration::from_secs(90);

/// The most unused connections: a burst of binds may need hundreds.
const MOST_IDLE: usize = 16;

/// So much of the body of an error is read, in bytes.
const LONGEST_CAUSE: usize = 256;

/// How long the rest of it may take: what is known already is that the extender refuses.
const CAUSE_WITHIN: Duration = Duration::from_millis(100);

const AGENT: &str = concat!("extender-policies/", env!("CARGO_PKG_VERSION"));

/// The body of a request.
type Body = Full<io::Cursor<Vec<u8>>>;

/// The client of one extender.
#[derive(Debug)]
pub(super) struct Client {
    connections: Connections<HttpsConnector<HttpConnector>, Body>,
    url_prefix: String,
    timeout: Duration,
    /// By URL and status.
    refused: RateLimitedLog<(String, u16)>,
}

impl Client {
    /// Reads the TLS files; connects later.
    ///
    /// # Errors
    /// A TLS file cannot be used.
    pub(super) fn new(entry: &Entry) -> Result<Self, String> {
        let Entry { url_prefix, is_https, timeout, tls, .. } = entry;
        if *is_https && matches!(tls.verification, Verification::None) {
            tracing::warn!(
                "the certificate of the extender at {url_prefix} is not verified, as in kube-scheduler; set tlsConfig.caFile"
            );
        }
        let connections = Connections::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(MOST_IDLE)
            .pool_timer(TokioTimer::new())
            .timer(TokioTimer::new())
            .build(connector(tls, *is_https)?);
        Ok(Self {
            connections,
            url_prefix: url_prefix.clone(),
            timeout: *timeout,
            refused: RateLimitedLog::new(1, Duration::from_mins(1)),
        })
    }

    /// Posts a body to a verb and returns the body of the reply.
    ///
    /// # Errors
    /// A sentence for operators: the extender cannot be reached, or is late; or it replies with another status than 200.
    pub(super) async fn post(&self, verb: &str, body: Vec<u8>) -> Result<Vec<u8>, Unanswered> {
        let url = format!("{}/{verb}", self.url_prefix);
        let late = |_| NoReply::Absent(format!("no reply within {:?} (httpTimeout)", self.timeout));
        let reply = timeout(self.timeout, self.exchange(&url, body)).await.map_err(late);
        reply.and_then(|reply| reply).map_err(|why| match why {
            NoReply::Absent(why) => NotReady(format!("POST {url}: {why}")).into(),
            NoReply::Unusable(why) => CannotAnswer(format!("POST {url}: {why}")).into(),
        })
    }

    async fn exchange(&self, url: &str, body: Vec<u8>) -> Result<Vec<u8>, NoReply> {
        let absent = NoReply::Absent;
        let most = LARGEST_REPLY.max(2 * body.len());
        let uri: Uri = url.parse().map_err(|error| absent(format!("not a URL: {error}")))?;
        let mut request =
            Request::post(uri).header(CONTENT_TYPE, "application/json").header(USER_AGENT, AGENT);
        if let Some(traceparent) = trace::traceparent() {
            request = request.header("traceparent", traceparent);
        }
        let request =
            request.body(Full::new(io::Cursor::new(body))).map_err(|error| absent(error.to_string()))?;
        let response = self.connections.request(request).await.map_err(|error| absent(cause(&error)))?;
        match response.status() {
            StatusCode::OK => {}
            status => {
                let status = status.as_u16();
                // The body may have a time or the pod's name in it, so only the log has it.
                let says = beginning(response.into_body()).await;
                if let Some(similar) = self.refused.permit_of((url.to_string(), status)) {
                    tracing::warn!(similar, "POST {url}: status {status}; expected 200{says}");
                }
                return Err(NoReply::Unusable(format!("status {status}; expected 200")));
            }
        }
        let body = Limited::new(response.into_body(), most).collect().await;
        let body = body.map_err(|error| match error.downcast_ref::<LengthLimitError>() {
            Some(_) => {
                NoReply::Unusable("the reply is larger than 64 MiB and than twice the request".to_owned())
            }
            None => absent(cause(&*error)),
        });
        Ok(body?.to_bytes().into())
    }
}

/// Why there is no reply to read.
#[derive(Debug)]
enum NoReply {
    /// None came.
    Absent(String),
    /// One came that is none of the protocol.
    Unusable(String),
}

/// The beginning of the body of an error, in which many extenders say what is wrong, as the end of a sentence: one line
/// without control characters.
async fn beginning(mut body: impl BodyExt<Data: AsRef<[u8]>> + Unpin) -> String {
    let mut read = Vec::new();
    let whole = async {
        while read.len() < LONGEST_CAUSE
            && let Some(Ok(frame)) = body.frame().await
        {
            read.extend_from_slice(frame.data_ref().map_or(&[], AsRef::as_ref));
        }
    };
    // What has come until then is enough.
    let _ = timeout(CAUSE_WITHIN, whole).await;
    read.truncate(LONGEST_CAUSE);
    let text = String::from_utf8_lossy(&read);
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    // A character may be cut.
    let line = line.trim_end_matches('\u{fffd}');
    if line.is_empty() { String::new() } else { format!(": {line}") }
}

fn connector(tls: &Tls, is_https: bool) -> Result<HttpsConnector<HttpConnector>, String> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let config = if is_https { tls::client(tls)? } else { unused() };
    let mut builder = HttpsConnectorBuilder::new().with_tls_config(config).https_or_http();
    if let Some(name) = tls.server_name.as_ref().filter(|_| is_https) {
        let name = ServerName::try_from(name.clone())
            .map_err(|_| format!("args.tlsConfig.serverName: {name:?} is not a DNS name or an IP address"))?;
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    Ok(builder.enable_all_versions().wrap_connector(tcp))
}

/// For URLs that are `http`: kube-scheduler reads no TLS setting then.
fn unused() -> ClientConfig {
    ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth()
}

/// The innermost cause: "Connection refused" instead of "client error (Connect)". The number of a system's error is
/// left out.
fn cause(error: &(dyn Error + 'static)) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    match innermost.downcast_ref::<io::Error>() {
        Some(error) if error.raw_os_error().is_some() => error.kind().to_string(),
        _ => innermost.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_beginning_of_an_error_is_one_line() {
        let long = [&[b'x'; 255][..], "ä".as_bytes()].concat();
        for (body, expected) in [
            (&b"Waiting for PVC\r\n\tto be\0bound\n"[..], ": Waiting for PVC to be bound".to_owned()),
            (&long, format!(": {}", "x".repeat(255))),
            (b"", String::new()),
        ] {
            assert_eq!(beginning(Full::new(body)).await, expected);
        }
    }
}
