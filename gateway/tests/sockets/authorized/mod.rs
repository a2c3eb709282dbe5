//! TLS and authorization of the metrics and the admin address, on the program.

mod commands;

use std::{fs, net::SocketAddr, path::Path, process::Stdio, sync::Arc};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use rustls::ClientConfig;
use serde_json::Value;
use tempfile::NamedTempFile;
use tokio::process::Command;

use crate::support::{
    ClosedPort,
    certificates::{Authority, Folder, Identity},
    ended,
    http::{Answer, Client},
    program::Program,
    reviewer::Reviewer,
    secured::{HTTP_1, HTTP_2, NAME, connect, open},
};

const GATEWAY: &str = env!("CARGO_BIN_EXE_extender-gateway");

/// A program with certificates, and an apiserver that reviews tokens.
struct Authorized {
    program: Program,
    servers: Authority,
    callers: Authority,
    folder: Folder,
    reviewer: Reviewer,
    _file: NamedTempFile,
}

/// `tls` of an address, with the authority of callers.
const CERTIFICATES: &str = "tls: {certFile: DIR/tls.crt, keyFile: DIR/tls.key, clientCAFile: DIR/ca.crt}";
/// The same without it.
const TLS: &str = "tls: {certFile: DIR/tls.crt, keyFile: DIR/tls.key}";
const TOKENS: &str = "authorization: Kubernetes";

/// A configuration with these fields of `metrics` and `admin`, in which DIR is this folder.
fn configuration(kubeconfig: &Path, folder: &Folder, metrics: &str, admin: &str) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let text = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\nextender: {{address: 127.0.0.1:0}}\n\
         metrics: {{address: 127.0.0.1:0, {metrics}}}\nadmin: {{address: 127.0.0.1:0, {admin}}}\n\
         cluster: {{kubeconfig: {}}}\nnodes: {{source: Request}}\n\
         backends: [{{name: a, url: 'http://127.0.0.1:1', filter: {{}}}}]\n",
        kubeconfig.display()
    );
    fs::write(file.path(), text.replace("DIR", folder.path("").to_str().unwrap())).unwrap();
    file
}

impl Authorized {
    /// With these fields of `metrics` and `admin`, and these rules of user, verb and path.
    async fn start(metrics: &str, admin: &str, allowed: &[[&str; 3]]) -> Self {
        let (servers, callers, folder) =
            (Authority::new("servers"), Authority::new("callers"), Folder::new());
        folder.identity("tls", &servers.issue(NAME, &[NAME]));
        folder.authority("servers", &servers);
        folder.authority("ca", &callers);
        let reviewer = Reviewer::start(allowed).await;
        let file = configuration(reviewer.kubeconfig.path(), &folder, metrics, admin);
        let program = Program::start(file.path()).await;
        Self { program, servers, callers, folder, reviewer, _file: file }
    }

    fn client(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        self.servers.client(identity, HTTP_1)
    }

    /// The answer at this address to a client with this identity and token.
    async fn ask(
        &self,
        address: SocketAddr,
        (identity, token): (Option<&Identity>, Option<&str>),
        request: &str,
    ) -> Answer {
        let mut client = connect(address, &self.client(identity)).await.unwrap();
        exchange(&mut client, request, token).await
    }

    /// The same at the metrics address, with a token only.
    async fn scrape(&self, token: Option<&str>, request: &str) -> Answer {
        self.ask(self.program.metrics, (None, token), request).await
    }
}

/// Sends `METHOD PATH` without a body.
async fn exchange<S>(client: &mut Client<S>, request: &str, token: Option<&str>) -> Answer
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    send(client, request, token.map(|token| format!("Bearer {token}"))).await
}

/// The same with these credentials.
async fn send<S>(client: &mut Client<S>, request: &str, credentials: Option<String>) -> Answer
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let credentials =
        credentials.map(|credentials| format!("Authorization: {credentials}\r\n")).unwrap_or_default();
    let head = format!("{request} HTTP/1.1\r\nHost: localhost\r\n{credentials}Content-Length: 0\r\n\r\n");
    client.write(head.as_bytes()).await;
    client.answer().await
}

fn error(answer: &Answer) -> String {
    answer.json()["error"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn metrics_need_a_token_that_is_allowed_and_probes_need_none() {
    let one = Authorized::start(&format!("{TLS}, {TOKENS}"), "", &[["reader", "get", "/metrics"]]).await;
    for probe in ["GET /livez", "GET /readyz"] {
        assert_eq!(one.scrape(None, probe).await.status, 200, "{probe}");
    }
    let none = one.scrape(None, "GET /metrics").await;
    assert_eq!((none.status, none.header("www-authenticate")), (401, Some("Bearer")));
    assert_eq!(error(&none), "no bearer token; send the header `Authorization: Bearer TOKEN`");
    let strange = one.scrape(Some("strange"), "GET /metrics").await;
    let challenge = "Bearer error=\"invalid_token\"";
    assert_eq!((strange.status, strange.header("www-authenticate")), (401, Some(challenge)));
    let other = one.scrape(Some(&Reviewer::token("other")), "GET /metrics").await;
    assert_eq!((other.status, other.header("www-authenticate")), (403, None));
    let told = "user \"other\" may not get /metrics; bind it to a ClusterRole with the rule \
                {nonResourceURLs: [\"/metrics\"], verbs: [get]}";
    assert_eq!(error(&other), told);
    let reader = Reviewer::token("reader");
    let allowed = one.scrape(Some(&reader), "GET /metrics").await;
    assert_eq!(allowed.status, 200);
    assert!(String::from_utf8(allowed.body).unwrap().contains("extender_gateway_build_info"));
    for (request, status) in
        [("POST /metrics", 403), ("GET /", 403), ("GET /livez/x", 403), ("BREW /metrics", 405)]
    {
        assert_eq!(one.scrape(Some(&reader), request).await.status, status, "{request}");
    }
    one.program.wrote("request refused: user \"other\" may not get /metrics", 1).await;
    let counted = String::from_utf8(one.scrape(Some(&reader), "GET /metrics").await.body).unwrap();
    for (cause, count) in [("no_token", 1), ("invalid_token", 1), ("not_allowed", 4), ("method", 1)] {
        let labels = format!("{{address=\"metrics\",cause=\"{cause}\"}}");
        let line = format!("extender_gateway_unauthorized_requests_total{labels} {count}\n");
        assert!(counted.contains(&line), "{line}{counted}");
    }
}

#[tokio::test]
async fn a_result_is_not_asked_for_again_at_once() {
    let one = Authorized::start(&format!("{TLS}, {TOKENS}"), "", &[["reader", "get", "/metrics"]]).await;
    let reader = Reviewer::token("reader");
    let mut client = connect(one.program.metrics, &one.client(None)).await.unwrap();
    for _ in 0..20 {
        assert_eq!(exchange(&mut client, "GET /metrics", Some(&reader)).await.status, 200);
        assert_eq!(exchange(&mut client, "GET /metrics", Some("strange")).await.status, 401);
    }
    let asked = one.reviewer.asked();
    // Ten seconds may pass on a slow machine, but not twenty times.
    assert!(asked.len() <= 3 * 4, "{asked:?}");
    assert_eq!(asked[..3], [reader, "get /metrics".to_owned(), "strange".to_owned()]);
}

#[tokio::test]
async fn a_client_certificate_is_enough_and_probes_need_none() {
    let one = Authorized::start(CERTIFICATES, "", &[]).await;
    for probe in ["GET /livez", "GET /readyz"] {
        assert_eq!(one.scrape(None, probe).await.status, 200, "{probe}");
    }
    let none = one.scrape(Some(&Reviewer::token("reader")), "GET /metrics").await;
    let told = "no client certificate; use one that is signed by a CA in metrics.tls.clientCAFile";
    assert_eq!((none.status, error(&none).as_str()), (403, told));
    let caller = one.callers.issue("prometheus", &[]);
    let metrics = one.program.metrics;
    assert_eq!(one.ask(metrics, (Some(&caller), None), "GET /metrics").await.status, 200);
    assert_eq!(one.reviewer.asked(), [""; 0]);
    let stranger = Authority::new("strangers").issue("prometheus", &[]);
    let mut client = connect(metrics, &one.client(Some(&stranger))).await.unwrap();
    client.write(b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let refused = tokio::io::AsyncReadExt::read_u8(&mut client.stream).await.unwrap_err().to_string();
    assert!(refused.contains("UnknownCA"), "{refused}");
    one.program.wrote("is not signed by a CA in metrics.tls.clientCAFile", 1).await;
}

#[tokio::test]
async fn a_certificate_needs_an_allowed_name() {
    let named = CERTIFICATES.replace("ca.crt", "ca.crt, allowedNames: [prometheus]");
    let one = Authorized::start(&named, "", &[]).await;
    let metrics = one.program.metrics;
    let caller = |name: &str| one.callers.issue(name, &[]);
    assert_eq!(one.ask(metrics, (Some(&caller("prometheus")), None), "GET /metrics").await.status, 200);
    let mut client = connect(metrics, &one.client(Some(&caller("other")))).await.unwrap();
    client.write(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
    tokio::io::AsyncReadExt::read_u8(&mut client.stream).await.unwrap_err();
}

#[tokio::test]
async fn with_both_either_is_enough() {
    let both = format!("{CERTIFICATES}, {TOKENS}");
    let rules = [["reader", "get", "/extender-gateway/debug/status"]];
    let one = Authorized::start("", &both, &rules).await;
    let (admin, caller) = (one.program.admin, one.callers.issue("operator", &[]));
    let reader = Reviewer::token("reader");
    for (identity, token, status) in [
        (None, None, 401),
        (None, Some("strange"), 401),
        (None, Some(reader.as_str()), 200),
        (Some(&caller), None, 200),
        (Some(&caller), Some("strange"), 200),
    ] {
        let answer = one.ask(admin, (identity, token), "GET /debug/status").await;
        assert_eq!(answer.status, status, "{token:?} {}", identity.is_some());
    }
    let livez = one.ask(admin, (None, None), "GET /livez").await;
    assert_eq!(livez.status, 401, "there are no probes at this address");
    let told = "no bearer token; send the header `Authorization: Bearer TOKEN`, or use a client certificate";
    assert_eq!(error(&livez), told);
}

#[tokio::test]
async fn a_change_needs_the_verb_of_its_method() {
    let rules = [
        ["reader", "get", "/extender-gateway/debug/overrides"],
        ["operator", "post", "/extender-gateway/debug/overrides"],
        ["operator", "put", "/extender-gateway/debug/flags/v"],
    ];
    let one = Authorized::start("", &format!("{TLS}, {TOKENS}"), &rules).await;
    let admin = one.program.admin;
    for (user, request, status) in [
        ("reader", "GET /debug/overrides", 200),
        ("reader", "POST /debug/overrides", 403),
        ("reader", "PUT /debug/flags/v", 403),
        ("operator", "GET /debug/overrides", 403),
        ("reader", "GET /debug/decisions", 403),
        ("reader", "GET /", 403),
    ] {
        let answer = one.ask(admin, (None, Some(&Reviewer::token(user))), request).await;
        assert_eq!(answer.status, status, "{user} {request}");
    }
    for request in ["POST /debug/overrides", "PUT /debug/flags/v"] {
        // What the page says to an empty body is its own matter.
        let answer = one.ask(admin, (None, Some(&Reviewer::token("operator"))), request).await;
        assert!(![401, 403, 503].contains(&answer.status), "{request}: {answer:?}");
    }
}

#[tokio::test]
async fn a_browser_shows_the_page_with_a_token_as_the_password() {
    let rules =
        [["reader", "get", "/extender-gateway/"], ["reader", "post", "/extender-gateway/debug/overrides"]];
    let one = Authorized::start("", &format!("{TLS}, {TOKENS}"), &rules).await;
    let mut client = connect(one.program.admin, &one.client(None)).await.unwrap();
    let asks_for_a_password = |answer: &Answer| {
        let challenges = answer.headers.iter().filter(|(name, _)| name == "www-authenticate");
        let schemes: Vec<_> = challenges.map(|(_, value)| value.split(' ').next().unwrap()).collect();
        assert_eq!(answer.status, 401, "{answer:?}");
        schemes == ["Bearer", "Basic"]
    };
    let password = |token: &str| Some(format!("Basic {}", BASE64_STANDARD.encode(format!("me:{token}"))));
    assert!(asks_for_a_password(&exchange(&mut client, "GET /", None).await));
    assert!(asks_for_a_password(&send(&mut client, "GET /", password("strange")).await));
    let reader = Reviewer::token("reader");
    let page = send(&mut client, "GET /", password(&reader)).await;
    assert_eq!((page.status, page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    let change = send(&mut client, "POST /debug/overrides", password(&reader)).await;
    assert!(!asks_for_a_password(&change), "another site could cause it");
    let caused =
        b"GET / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n";
    client.write(caused).await;
    let refused = client.answer().await;
    assert_eq!((refused.status, refused.header("www-authenticate")), (403, None), "it would ask there, too");
}

#[tokio::test]
async fn an_apiserver_that_cannot_review_is_no_permission() {
    let one = Authorized::start(&format!("{TLS}, {TOKENS}"), "", &[["reader", "get", "/metrics"]]).await;
    let reader = Reviewer::token("reader");
    for (code, text) in [(403, "told so; the gateway's account needs the verb create"), (500, "told so")] {
        one.reviewer.fails_with(Some(code));
        let answer = one.scrape(Some(&reader), "GET /metrics").await;
        let told = "the apiserver cannot be asked about the bearer token; see the gateway's log";
        assert_eq!((answer.status, error(&answer).as_str()), (503, told));
        assert_eq!(one.scrape(None, "GET /readyz").await.status, 200, "probes do not depend on it");
        if code == 403 {
            one.program
                .wrote(&format!("request refused: the apiserver cannot review tokens: {text}"), 1)
                .await;
        }
    }
    one.reviewer.fails_with(None);
    assert_eq!(one.scrape(Some(&reader), "GET /metrics").await.status, 200);
}

#[tokio::test]
async fn without_an_apiserver_it_does_not_start() {
    let (folder, missing) = (Folder::new(), ClosedPort::new());
    folder.write("kubeconfig", format!("users: {}", missing.address));
    let file = configuration(&folder.path("kubeconfig"), &folder, TOKENS, "");
    let (code, errors) = serve(file.path()).await;
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("metrics.authorization Kubernetes: "), "{errors}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named_by_their_address() {
    let folder = Folder::new();
    for (metrics, admin, field) in [(TLS, "", "metrics.tls.certFile: "), ("", TLS, "admin.tls.certFile: ")] {
        let file = configuration(Path::new("/nowhere"), &folder, metrics, admin);
        let (code, errors) = serve(file.path()).await;
        assert_eq!(code, 1, "{errors}");
        assert!(errors.contains(field) && errors.contains("tls.crt: cannot be read"), "{errors}");
        let mut check = Command::new(GATEWAY);
        let checked = check.args(["check-config", "--config"]).arg(file.path()).output().await.unwrap();
        let errors = String::from_utf8(checked.stderr).unwrap();
        assert_eq!(checked.status.code(), Some(3), "{errors}");
        assert!(errors.contains(field), "{errors}");
    }
}

/// Runs a program that ends: its exit code and what it wrote to standard error.
async fn serve(file: &Path) -> (i32, String) {
    let mut command = Command::new(GATEWAY);
    command.args(["serve", "--config"]).arg(file).stdout(Stdio::null()).kill_on_drop(true);
    let output = ended("it serves", command.output()).await.unwrap();
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[tokio::test]
async fn both_addresses_speak_http_1_with_new_certificates() {
    let one = Authorized::start(TLS, TLS, &[]).await;
    for address in [one.program.metrics, one.program.admin] {
        let plain = Client::connect(address).await.send("GET", "/livez", b"").await;
        let told = "extender-gateway: this address requires TLS";
        assert_eq!((plain.status, plain.header("x-extender-gateway-error")), (400, Some(told)));
        let refused = open(address, &one.servers.client(None, HTTP_2)).await.unwrap_err();
        assert!(refused.contains("NoApplicationProtocol"), "{refused}");
    }
    one.program.wrote("the caller speaks HTTP without TLS; set scheme https in the scraper's", 1).await;
    let next = one.servers.issue("next", &[NAME]);
    one.folder.identity("tls", &next);
    for address in [one.program.metrics, one.program.admin] {
        let renewed = async {
            loop {
                let stream = open(address, &one.client(None)).await.unwrap();
                if stream.get_ref().1.peer_certificates() == Some(&next.chain()[..]) {
                    return;
                }
            }
        };
        ended("the certificate is not reloaded", renewed).await;
    }
}

#[tokio::test]
async fn a_plain_address_on_loopback_takes_tokens() {
    let one = Authorized::start(TOKENS, "", &[["reader", "get", "/metrics"]]).await;
    let mut client = Client::connect(one.program.metrics).await;
    assert_eq!(exchange(&mut client, "GET /metrics", None).await.status, 401);
    let reader = Reviewer::token("reader");
    assert_eq!(exchange(&mut client, "GET /metrics", Some(&reader)).await.status, 200);
    let status: Value =
        Client::connect(one.program.admin).await.send("GET", "/debug/status", b"").await.json();
    assert!(status["gateway"].is_string(), "the other address needs nothing: {status}");
}
