//! Failures to connect, named by the apiserver's URL: kube's errors contain neither the URL nor a short cause.

use std::{
    error::Error,
    io::{self, ErrorKind},
    iter::successors,
};

use hyper_util::client::legacy;

use crate::bounded;

type BoxError = Box<dyn Error + Send + Sync>;

/// There is no connection, so the apiserver did not receive the request.
#[derive(Debug, thiserror::Error)]
#[error("cannot connect to {url}: {cause}")]
pub(crate) struct Unreachable {
    url: String,
    cause: String,
}

/// The error itself, or [`Unreachable`] if it is a failure to connect to this URL.
pub(crate) fn named(error: BoxError, url: &str) -> BoxError {
    if !is_connect(&*error) {
        return error;
    }
    Unreachable { url: url.trim_end_matches('/').to_owned(), cause: cause(&*error) }.into()
}

/// Whether the connection could not be made.
pub(crate) fn is_connect(error: &(dyn Error + 'static)) -> bool {
    successors(Some(error), |&error| error.source())
        .any(|error| error.is::<Unreachable>() || error.downcast_ref().is_some_and(legacy::Error::is_connect))
}

/// The innermost cause: the errors around it only say that connecting has failed.
fn cause(error: &(dyn Error + 'static)) -> String {
    let innermost = successors(Some(error), |&error| error.source()).last().unwrap_or(error);
    match innermost.downcast_ref::<io::Error>().map(io::Error::kind) {
        Some(ErrorKind::ConnectionRefused) => "connection refused".to_owned(),
        Some(ErrorKind::ConnectionReset) => "connection reset".to_owned(),
        Some(ErrorKind::TimedOut) => "no answer in time".to_owned(),
        Some(ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable) => "no route to it".to_owned(),
        _ => bounded(&innermost.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, time::Duration};

    use kube::Config;

    use crate::{ClientTimeouts, RequestError, client, read};

    async fn failure(url: &str) -> String {
        // The provider may be installed by another test.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let timeouts = ClientTimeouts { connect: Duration::from_mins(1), ..ClientTimeouts::default() };
        let client = client(Config::new(url.parse().unwrap()), timeouts).await.unwrap();
        let request = kube::core::Request::new("/api/v1/nodes").list(&kube::api::ListParams::default());
        match read(&client, request, 1).await.unwrap_err() {
            RequestError::Unreachable(text) => text,
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_failure_to_connect_names_the_apiserver_and_the_cause() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        // Nobody listens there any more.
        assert_eq!(
            failure(&format!("http://{address}/")).await,
            format!("cannot connect to http://{address}: connection refused")
        );
        let text = failure("http://no-such-host.invalid:6443").await;
        assert!(
            text.starts_with("cannot connect to http://no-such-host.invalid:6443: failed to lookup"),
            "{text}"
        );
    }

    #[tokio::test]
    async fn a_failed_handshake_has_its_cause() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            // It speaks no TLS.
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::io::AsyncWriteExt::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n")
                .await
                .unwrap();
            stream
        });
        let text = failure(&format!("https://{address}")).await;
        let start = format!("cannot connect to https://{address}: ");
        assert!(text.starts_with(&start) && text.len() > start.len() + 10, "{text}");
        drop(server.await.unwrap());
    }
}
