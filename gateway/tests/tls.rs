//! TLS at the door, from outside: who gets in, what is spoken, and what happens when files change.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::{
    future::pending,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use h2::client::SendRequest;
use http::Request;
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::{Value, json};
use support::{
    Gateway,
    backend::{Act, Scripted},
    by_name,
    certificates::{Authority, Folder, Identity},
    http::Client,
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The name in the gateway's certificates.
const NAME: &str = "gateway.test";
const HTTP_1: &[&str] = &["http/1.1"];
const HTTP_2: &[&str] = &["h2"];

/// A gateway with certificates: its own authority, that of its callers, and where the files are.
struct Secured {
    gateway: Gateway,
    backend: Scripted,
    servers: Authority,
    callers: Authority,
    folder: Folder,
}

impl Secured {
    /// With these further fields of `extender.tls`; `ca.crt` has the authority of callers.
    async fn start(fields: &str) -> Self {
        Self::start_before(fields, Scripted::refusing(&["a"], "no", 0).await).await
    }

    async fn start_before(fields: &str, backend: Scripted) -> Self {
        let (servers, callers, folder) =
            (Authority::new("servers"), Authority::new("callers"), Folder::new());
        folder.identity("tls", &servers.issue(NAME, &[NAME]));
        folder.authority("ca", &callers);
        let file = |name: &str| folder.path(name).display().to_string();
        let fields = fields.replace("CALLERS", &file("ca.crt"));
        let extender =
            format!(", tls: {{certFile: {}, keyFile: {}{fields}}}", file("tls.crt"), file("tls.key"));
        let rest = format!(
            "timeouts: {{decision: 60s}}\nnodes: {{source: Request}}\nbackends:\n\
             - {{name: only, url: 'http://{}', filter: {{timeout: 60s}}, score: {{}}}}\n",
            backend.address
        );
        let gateway = Gateway::start_as(&extender, &rest, pending()).await;
        Self { gateway, backend, servers, callers, folder }
    }

    fn client(&self, identity: Option<&Identity>, protocols: &[&str]) -> Arc<ClientConfig> {
        self.servers.client(identity, protocols)
    }

    /// The answer to one filter call; what the client says when there is none.
    async fn filter(&self, client: &Arc<ClientConfig>) -> Result<Value, String> {
        let mut client = connect(self.gateway.address, client).await?;
        // With TLS 1.3 a client learns from its first read that its certificate is refused.
        client.write(&http(&by_name(&["a", "b"]))).await;
        match tokio::io::AsyncReadExt::read_u8(&mut client.stream).await {
            Err(error) => Err(error.to_string()),
            Ok(first) => {
                assert_eq!(first, b'H');
                Ok(client.rest_of_answer(vec![first]).await.json())
            }
        }
    }
}

fn http(body: &str) -> Vec<u8> {
    format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

async fn open(address: SocketAddr, config: &Arc<ClientConfig>) -> Result<TlsStream<TcpStream>, String> {
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    let opened = connector.connect(ServerName::try_from(NAME).unwrap(), stream).await;
    opened.map_err(|error| error.to_string())
}

async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> Result<Client<TlsStream<TcpStream>>, String> {
    open(address, config).await.map(|stream| Client { stream })
}

async fn connect_h2(address: SocketAddr, config: &Arc<ClientConfig>) -> SendRequest<Bytes> {
    let stream = open(address, config).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    requests
}

fn post(path: &str) -> Request<()> {
    Request::post(format!("https://{NAME}{path}")).body(()).unwrap()
}

fn accepted() -> Value {
    json!({"NodeNames": ["b"], "FailedNodes": {}, "FailedAndUnresolvableNodes": {"a": "only: no"}, "Error": ""})
}

#[tokio::test]
async fn without_a_client_authority_everybody_is_served() {
    let secured = Secured::start("").await;
    assert_eq!(secured.filter(&secured.client(None, HTTP_1)).await, Ok(accepted()));
    assert_eq!(secured.filter(&secured.client(None, &[])).await, Ok(accepted()), "without ALPN");
    let stranger = Authority::new("strangers");
    let error = secured.filter(&stranger.client(None, HTTP_1)).await.unwrap_err();
    assert!(error.contains("UnknownIssuer"), "{error}");
}

#[tokio::test]
async fn a_required_certificate_has_to_be_there_signed_and_named() {
    let names = ", clientCAFile: CALLERS, allowedNames: ['system:kube-scheduler', scheduler.test]";
    let secured = Secured::start(names).await;
    let shown = async |identity: Option<&Identity>| secured.filter(&secured.client(identity, HTTP_1)).await;
    let issue = |common: &str, names: &[&str]| secured.callers.issue(common, names);
    assert_eq!(shown(Some(&issue("system:kube-scheduler", &[]))).await, Ok(accepted()));
    assert_eq!(shown(Some(&issue("other", &["x.test", "Scheduler.test"]))).await, Ok(accepted()));
    for (refused, text) in [
        (None, "CertificateRequired"),
        (Some(Authority::new("strangers").issue("system:kube-scheduler", &[])), "UnknownCA"),
        (Some(secured.servers.issue("system:kube-scheduler", &[])), "UnknownCA"),
        (Some(issue("system:kube-proxy", &["x.test"])), "CertificateUnknown"),
        (Some(issue("System:kube-scheduler", &[])), "CertificateUnknown"),
        (Some(issue("", &["a.scheduler.test"])), "CertificateUnknown"),
    ] {
        let error = shown(refused.as_ref()).await.unwrap_err();
        assert!(error.contains(text), "{text}: {error}");
    }
}

#[tokio::test]
async fn any_certificate_of_the_authority_will_do_without_names() {
    let secured = Secured::start(", clientCAFile: CALLERS").await;
    let anybody = secured.callers.issue("anybody", &[]);
    assert_eq!(secured.filter(&secured.client(Some(&anybody), HTTP_1)).await, Ok(accepted()));
    secured.filter(&secured.client(None, HTTP_1)).await.unwrap_err();
}

#[tokio::test]
async fn an_optional_certificate_has_to_be_right_if_it_is_there() {
    let fields = ", clientCAFile: CALLERS, clientCertificate: Optional, allowedNames: [scheduler]";
    let secured = Secured::start(fields).await;
    let shown = async |identity: Option<&Identity>| secured.filter(&secured.client(identity, HTTP_1)).await;
    assert_eq!(shown(None).await, Ok(accepted()));
    assert_eq!(shown(Some(&secured.callers.issue("scheduler", &[]))).await, Ok(accepted()));
    shown(Some(&secured.callers.issue("other", &[]))).await.unwrap_err();
    shown(Some(&Authority::new("strangers").issue("scheduler", &[]))).await.unwrap_err();
}

#[tokio::test]
async fn plain_http_is_told_that_tls_is_spoken() {
    let secured = Secured::start("").await;
    let answer = secured.gateway.post("/filter", by_name(&["a"])).await;
    assert_eq!(answer.status, 400);
    let said = answer.header("x-extender-gateway-error");
    assert_eq!(said, Some("extender-gateway: this address speaks TLS"));
}

#[tokio::test]
async fn a_caller_that_says_nothing_keeps_nobody_out() {
    let secured = Secured::start("").await;
    let _silent = TcpStream::connect(secured.gateway.address).await.unwrap();
    assert_eq!(secured.filter(&secured.client(None, HTTP_1)).await, Ok(accepted()));
}

#[tokio::test]
async fn http_2_is_spoken_with_those_who_offer_it() {
    let secured = Secured::start("").await;
    let both = secured.client(None, &["h2", "http/1.1"]);
    let requests = connect_h2(secured.gateway.address, &both).await;
    let large = " ".repeat((1 << 20) + 1);
    for (path, body, status, said) in [
        ("/filter", by_name(&["a", "b"]), 200, accepted()),
        ("/prioritize", by_name(&["a"]), 200, json!([{"Host": "a", "Score": 0}])),
        ("/nothing", String::new(), 404, Value::Null),
        ("/prioritize", large, 413, Value::Null),
    ] {
        let mut requests = requests.clone().ready().await.unwrap();
        let (response, mut stream) = requests.send_request(post(path), false).unwrap();
        stream.send_data(body.into(), true).unwrap();
        let (head, mut body) = response.await.unwrap().into_parts();
        let mut whole = Vec::new();
        while let Some(chunk) = body.data().await {
            whole.extend_from_slice(&chunk.unwrap());
        }
        assert_eq!(head.status.as_u16(), status, "{path}");
        assert_eq!(head.headers["content-length"].to_str().unwrap(), whole.len().to_string(), "{path}");
        assert_eq!(serde_json::from_slice::<Value>(&whole).unwrap_or_default(), said, "{path}");
    }
}

#[tokio::test]
async fn a_reset_stream_takes_the_questions_with_it() {
    let secured = Secured::start_before("", Scripted::always(Act::Hang).await).await;
    let client = secured.client(None, HTTP_2);
    let requests = connect_h2(secured.gateway.address, &client).await;
    let mut requests = requests.ready().await.unwrap();
    let (response, mut stream) = requests.send_request(post("/filter"), false).unwrap();
    stream.send_data(by_name(&["a"]).into(), true).unwrap();
    while secured.backend.asked("Filter").is_empty() {
        tokio::task::yield_now().await;
    }
    stream.send_reset(h2::Reason::CANCEL);
    secured.backend.given_up().await;
    drop(response);
    requests.ready().await.expect("the connection lives on");
}

#[tokio::test]
async fn a_caller_who_hangs_up_takes_the_questions_with_it() {
    let secured = Secured::start_before("", Scripted::always(Act::Hang).await).await;
    let client = secured.client(None, HTTP_1);
    let mut client = connect(secured.gateway.address, &client).await.unwrap();
    client.write(&http(&by_name(&["a"]))).await;
    while secured.backend.asked("Filter").is_empty() {
        tokio::task::yield_now().await;
    }
    drop(client);
    secured.backend.given_up().await;
}

#[tokio::test]
async fn a_new_certificate_is_shown_without_a_failed_call() {
    let secured = Arc::new(Secured::start("").await);
    let client = secured.client(None, HTTP_1);
    let mut old = connect(secured.gateway.address, &client).await.unwrap();
    let (over, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let load = tokio::spawn({
        let (secured, client) = (Arc::clone(&secured), Arc::clone(&client));
        let (over, calls) = (Arc::clone(&over), Arc::clone(&calls));
        async move {
            while !over.load(Ordering::Relaxed) {
                assert_eq!(secured.filter(&client).await, Ok(accepted()));
                calls.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    let next = secured.servers.issue("next", &[NAME]);
    secured.folder.identity("tls", &next);
    loop {
        let stream = open(secured.gateway.address, &client).await.unwrap();
        if stream.get_ref().1.peer_certificates() == Some(&next.chain()[..]) {
            break;
        }
        let answer = old.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
        assert_eq!(answer.json(), accepted(), "old connections stay");
    }
    over.store(true, Ordering::Relaxed);
    load.await.unwrap();
    assert!(calls.load(Ordering::Relaxed) > 0);
    assert_eq!(old.post("/filter", by_name(&["a", "b"]).as_bytes()).await.json(), accepted());
}
