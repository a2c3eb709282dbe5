//! The commands at an admin address with TLS and authorization.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use super::{Authorized, CERTIFICATES, GATEWAY, TLS, TOKENS};
use crate::support::{apiserver::kubeconfig, http::Client, reviewer::Reviewer, secured::NAME};
use tokio::process::Command;

/// Runs a command that reaches gateways only by its arguments: its exit code, and all that it wrote.
async fn run(arguments: &[&str], variables: &[(&str, &str)]) -> (i32, String) {
    let mut command = Command::new(GATEWAY);
    command.args(arguments).env_clear().env("HOME", "/nonexistent").kill_on_drop(true);
    command.envs(variables.iter().copied());
    let output = command.output().await.unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code().unwrap(), text)
}

/// A file with this token, as `kubectl create token` prints it.
fn token_file(one: &Authorized, user: &str) -> String {
    let name = format!("{user}.token");
    one.folder.write(&name, format!("{}\n", Reviewer::token(user)));
    one.folder.path(&name).display().to_string()
}

#[tokio::test]
async fn status_uses_a_token_and_says_what_is_missing() {
    let rules = [["reader", "get", "/extender-gateway/debug/status"]];
    let one = Authorized::start("", &format!("{TLS}, {TOKENS}"), &rules).await;
    let port = one.program.admin.port();
    let (https, plain) = (format!("https://127.0.0.1:{port}"), format!("http://127.0.0.1:{port}"));
    let authority = one.folder.path("servers.crt").display().to_string();
    let others = one.folder.path("ca.crt").display().to_string();
    let (reader, other) = (token_file(&one, "reader"), token_file(&one, "other"));
    let secure = ["status", "--gateway", &https, "--tls-ca", &authority];
    let with = |rest: &[&str]| [&secure as &[&str], &["--tls-server-name", NAME], rest].concat().join("\n");
    for (line, text) in [
        (with(&["--token", "a b"]), "the token cannot be used: it is empty or has spaces"),
        (with(&["--token-file", "/nowhere"]), "the token cannot be used: /nowhere: cannot be read"),
        (with(&[]), "HTTP 401 \"no bearer token; send the header"),
        (
            with(&[]),
            "; set --token-file, for example to a file with the output of `kubectl create token NAME`",
        ),
        (with(&["--token", "strange"]), "HTTP 401 \"the apiserver does not accept the bearer token"),
        (
            with(&["--token-file", &other]),
            "user \\\"other\\\" may not get /extender-gateway/debug/status; bind it to a ClusterRole",
        ),
        (secure.join("\n"), "; set --tls-server-name to one of its names"),
        (["status", "--gateway", &https].join("\n"), "an https URL needs --tls-ca FILE"),
        (
            ["status", "--gateway", &https, "--tls-ca", &others].join("\n"),
            "UnknownIssuer; the file of --tls-ca must contain the CA that signed it",
        ),
        (
            ["status", "--gateway", &https, "--tls-ca", "/nowhere"].join("\n"),
            "--tls-ca: /nowhere: cannot be read",
        ),
        (["status", "--gateway", &plain].join("\n"), "the address requires TLS; set --tls-ca"),
    ] {
        let line: Vec<_> = line.split('\n').collect();
        let (code, told) = run(&line, &[]).await;
        assert!(code == 5 && told.contains(text), "{line:?}: {code}\n{told}");
    }
    let allowed = with(&["--token-file", &reader]);
    let (code, told) = run(&allowed.split('\n').collect::<Vec<_>>(), &[]).await;
    assert!(told.contains("backend a: cannot connect to 127.0.0.1:1"), "{code}\n{told}");
    let variables = [
        ("EXTENDER_GATEWAYS", https.as_str()),
        ("EXTENDER_GATEWAY_CA_FILE", &authority),
        ("EXTENDER_GATEWAY_TOKEN_FILE", &reader),
    ];
    let (code, told) = run(&["status", "--tls-server-name", NAME], &variables).await;
    assert!(told.contains("backend a: cannot connect to 127.0.0.1:1"), "{code}\n{told}");
}

#[tokio::test]
async fn status_uses_a_client_certificate() {
    let one = Authorized::start("", CERTIFICATES, &[]).await;
    let url = format!("https://127.0.0.1:{}", one.program.admin.port());
    let path = |name: &str| one.folder.path(name).display().to_string();
    one.folder.identity("operator", &one.callers.issue("operator", &[]));
    one.folder.identity("stranger", &one.servers.issue("stranger", &[]));
    let authority = path("servers.crt");
    let line = ["status", "--gateway", &url, "--tls-ca", &authority, "--tls-server-name", NAME];
    let (code, told) = run(&line, &[]).await;
    assert!(code == 5 && told.contains("HTTP 403 \"no client certificate"), "{code}\n{told}");
    assert!(told.contains("; set --tls-cert and --tls-key"), "{told}");
    for (name, text) in [
        ("operator", "backend a: cannot connect to 127.0.0.1:1"),
        (
            "stranger",
            "the gateway rejected the client certificate (received fatal alert: UnknownCA); the certificate of --tls-cert must be signed by",
        ),
    ] {
        let (certificate, key) = (path(&format!("{name}.crt")), path(&format!("{name}.key")));
        let (code, told) =
            run(&[&line as &[_], &["--tls-cert", &certificate, "--tls-key", &key]].concat(), &[]).await;
        assert!(told.contains(text), "{name}: {code}\n{told}");
    }
}

#[tokio::test]
async fn tls_and_plain_http_are_told_apart() {
    let one = Authorized::start("", "", &[]).await;
    let url = format!("https://{}", one.program.admin);
    let authority = one.folder.path("servers.crt").display().to_string();
    let (code, told) = run(&["status", "--gateway", &url, "--tls-ca", &authority], &[]).await;
    assert!(code == 5 && told.contains("the address speaks HTTP without TLS; use an http URL"), "{told}");
}

/// An apiserver with one pod of the gateway, whose admin address is this one. It forwards no port, passes on requests without
/// TLS, and answers those for TLS as the gateway would.
async fn proxy(admin: std::net::SocketAddr, answer: (u16, &'static str)) -> tempfile::NamedTempFile {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = kubeconfig(listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(move |request| async move {
                Ok::<_, Infallible>(passed_on(request, admin, answer).await)
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
    file
}

async fn passed_on(
    request: Request<Incoming>,
    admin: std::net::SocketAddr,
    (code, body): (u16, &'static str),
) -> Response<Full<Bytes>> {
    let pods = "/api/v1/namespaces/gw/pods";
    match request.uri().path().strip_prefix(pods).unwrap() {
        "" => {
            let pod = json!({"metadata": {"name": "gateway-0"}, "status": {"phase": "Running"}});
            let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod]});
            Response::new(Full::from(list.to_string()))
        }
        "/gateway-0/portforward" => {
            let refusal =
                json!({"kind": "Status", "status": "Failure", "code": 403, "message": "not for you"});
            Response::builder().status(403).body(Full::from(refusal.to_string())).unwrap()
        }
        "/gateway-0:9403/proxy/debug/status" => {
            let answer = Client::connect(admin).await.send("GET", "/debug/status", b"").await;
            let mut response = Response::builder().status(answer.status);
            for (name, value) in answer.headers.iter().filter(|(name, _)| name.starts_with("x-")) {
                response = response.header(name, value);
            }
            response.body(Full::from(answer.body)).unwrap()
        }
        "/https:gateway-0:9403/proxy/debug/status" => {
            Response::builder().status(code).body(Full::from(body)).unwrap()
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn the_apiserver_is_told_that_a_pod_speaks_tls() {
    let one = Authorized::start("", TLS, &[]).await;
    for (answer, text) in [
        ((404, "{\"error\": \"it was asked with TLS\"}"), "HTTP 404 \"it was asked with TLS\""),
        (
            (401, "{\"error\": \"no bearer token\"}"),
            "it rejected the request: not for you; the account of the kubeconfig needs the rule {apiGroups: [\"\"], resources: \
             [pods/portforward], verbs: [get, create]} in this namespace. Through the proxy of the apiserver: HTTP 401 \"no \
             bearer token\"; this way passes no token and no certificate on",
        ),
    ] {
        let file = proxy(one.program.admin, answer).await;
        let config = file.path().display().to_string();
        let (code, told) = run(&["status", "--gateway-namespace", "gw", "--kubeconfig", &config], &[]).await;
        assert!(code == 5 && told.contains(text), "{code}\n{told}");
    }
}
