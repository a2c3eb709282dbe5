//! Backends behind TLS: which certificates are trusted, and the errors of failed connections.

use std::sync::Arc;

use crate::support::{
    Gateway,
    backend::{Act, Scripted, filtered, info},
    by_name,
    certificates::{Authority, Folder},
    reading,
};
use prost::Message;
use rustls::ServerConfig;
use serde_json::json;

/// The authorities of a test and their files: `ca.crt` signs backends, `other.crt` does not.
struct Trust {
    backends: Authority,
    callers: Authority,
    folder: Folder,
}

impl Trust {
    fn new() -> Self {
        let (backends, callers) = (Authority::new("backends"), Authority::new("callers"));
        let folder = Folder::new();
        folder.authority("ca", &backends);
        folder.authority("other", &Authority::new("others"));
        folder.identity("gateway", &callers.issue("gateway", &[]));
        folder.identity("stranger", &Authority::new("strangers").issue("gateway", &[]));
        Self { backends, callers, folder }
    }

    /// The answer of a filter call with a backend's `tls`; `DIR` is the folder of the files.
    async fn filter(&self, server: &Arc<ServerConfig>, tls: &str) -> serde_json::Value {
        let script = |_: &str, message| Act::Message(filtered(&message, &["a"], "no").encode_to_vec());
        let backend = Scripted::start_as(info(reading::names()), script, Some(Arc::clone(server))).await;
        let tls = tls.replace("DIR", &self.folder.path("").display().to_string());
        let gateway = Gateway::start(&format!(
            "nodes: {{source: Request}}\nbackends:\n\
             - {{name: b, url: 'https://localhost:{}', tls: {{{tls}}}, filter: {{timeout: 60s}}}}\n",
            backend.address.port()
        ))
        .await;
        gateway.post("/filter", by_name(&["a", "b"])).await.json()
    }
}

#[tokio::test]
async fn a_backend_of_the_authority_is_asked() {
    let trust = Trust::new();
    let named = Authority::server(&trust.backends.issue("b", &["localhost"]), None, &["h2"]);
    let answer = trust.filter(&named, "caFile: DIRca.crt").await;
    assert_eq!(answer["NodeNames"], json!(["b"]), "{answer}");
    let elsewhere = Authority::server(&trust.backends.issue("b", &["b.test"]), None, &["h2"]);
    let answer = trust.filter(&elsewhere, "caFile: DIRca.crt, serverName: b.test").await;
    assert_eq!(answer["NodeNames"], json!(["b"]), "{answer}");
    let careful =
        Authority::server(&trust.backends.issue("b", &["localhost"]), Some(&trust.callers), &["h2"]);
    let identity = "caFile: DIRca.crt, certFile: DIRgateway.crt, keyFile: DIRgateway.key";
    let answer = trust.filter(&careful, identity).await;
    assert_eq!(answer["NodeNames"], json!(["b"]), "{answer}");
}

#[tokio::test]
async fn every_failure_says_what_is_wrong() {
    let trust = Trust::new();
    trust.folder.write("empty.crt", "");
    let usual = Authority::server(&trust.backends.issue("b", &["localhost"]), None, &["h2"]);
    let old = Authority::server(&trust.backends.issue("b", &["localhost"]), None, &["http/1.1"]);
    let silent = Authority::server(&trust.backends.issue("b", &["localhost"]), None, &[]);
    let elsewhere = Authority::server(&trust.backends.issue("b", &["b.test"]), None, &["h2"]);
    for (server, tls, text) in [
        (&usual, "caFile: DIRother.crt", "invalid peer certificate: UnknownIssuer"),
        (&usual, "caFile: DIRgone.crt", "gone.crt: cannot be read: No such file"),
        (&usual, "caFile: DIRempty.crt", "empty.crt: has no certificate"),
        (&usual, "caFile: DIRca.crt, certFile: DIRgateway.crt, keyFile: DIRstranger.key", "does not match"),
        (&elsewhere, "caFile: DIRca.crt", "certificate not valid for name"),
        (&usual, "caFile: DIRca.crt, serverName: b.test", "certificate not valid for name"),
        (&old, "caFile: DIRca.crt", "NoApplicationProtocol"),
        (&silent, "caFile: DIRca.crt", "the backend does not offer HTTP/2"),
    ] {
        let error = trust.filter(server, tls).await["Error"].as_str().unwrap().to_owned();
        let begins = "extender-gateway: backend b failed filter: cannot connect to localhost:";
        assert!(error.starts_with(begins) && error.contains(": TLS: ") && error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_backend_that_refuses_the_gateways_certificate_is_unreachable() {
    let trust = Trust::new();
    let careful =
        Authority::server(&trust.backends.issue("b", &["localhost"]), Some(&trust.callers), &["h2"]);
    for (identity, text) in
        [("", "CertificateRequired"), (", certFile: DIRstranger.crt, keyFile: DIRstranger.key", "UnknownCA")]
    {
        let error =
            trust.filter(&careful, &format!("caFile: DIRca.crt{identity}")).await["Error"].to_string();
        assert!(error.contains(": TLS: ") && error.contains(text), "{error}");
    }
}

#[tokio::test]
async fn the_files_are_read_for_each_connection() {
    let trust = Trust::new();
    let server = Authority::server(&trust.backends.issue("b", &["localhost"]), None, &["h2"]);
    let script = |_: &str, message| Act::Message(filtered(&message, &["a"], "no").encode_to_vec());
    let backend = Scripted::start_as(info(reading::names()), script, Some(server)).await;
    trust.folder.authority("used", &Authority::new("former"));
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\nbackends:\n- {{name: b, url: 'https://localhost:{}', \
         tls: {{caFile: {}}}, filter: {{timeout: 60s}}}}\n",
        backend.address.port(),
        trust.folder.path("used.crt").display()
    ))
    .await;
    let error = gateway.post("/filter", by_name(&["a", "b"])).await.error();
    assert!(error.contains("UnknownIssuer"), "{error}");
    trust.folder.authority("used", &trust.backends);
    let answered = async {
        while gateway.post("/filter", by_name(&["a", "b"])).await.json()["NodeNames"] != json!(["b"]) {}
    };
    tokio::time::timeout(std::time::Duration::from_mins(1), answered).await.unwrap();
}
