//! TLS over real sockets: which clients are served, a certificate that is replaced, and clients that never finish
//! their handshake.

#![cfg(feature = "tls")]

use std::{fs, net::SocketAddr, sync::Arc, time::Duration};

use extender_policy_api::v1beta1::{GetInfoRequest, policy_service_client::PolicyServiceClient};
use extender_policy_sdk::{Bound, Info, Node, Options, Pod, Policy, TlsFiles, Verb, Verdict};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::soon;

struct AllFit;

impl Policy for AllFit {
    fn info(&self) -> Info {
        Info::new("all-fit", "1").filters(Verb::per_node().pure())
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::Accept
    }
}

/// A CA, and what it signs.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        Self::named("authority")
    }

    fn named(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// The PEM of a certificate and of its key.
    fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let certificate =
            CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &self.0).unwrap();
        (certificate.pem(), key.serialize_pem())
    }

    fn pem(&self) -> String {
        self.0.pem()
    }
}

/// The files of a backend.
struct Files(TempDir);

impl Files {
    fn new(authority: &Authority) -> Self {
        let files = Self(TempDir::new().unwrap());
        files.renew(authority);
        files
    }

    fn renew(&self, authority: &Authority) {
        let (certificate, key) = authority.sign("policy.test");
        self.write("tls.crt", &certificate);
        self.write("tls.key", &key);
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.path().join(name), content).unwrap();
    }

    fn tls(&self, clients: Option<&Authority>) -> TlsFiles {
        let path = |name: &str| self.0.path().join(name);
        let client_ca = clients.map(|authority| {
            self.write("clients.crt", &authority.pem());
            path("clients.crt")
        });
        TlsFiles { cert: path("tls.crt"), key: path("tls.key"), client_ca }
    }
}

async fn serving(tls: Option<TlsFiles>) -> SocketAddr {
    let bound = Bound::new(AllFit, Options { tls, ..Options::default() }).await.unwrap();
    let address = bound.address();
    tokio::spawn(bound.until(std::future::pending()));
    address
}

/// A client that trusts one CA and may have a certificate of another.
fn client(trusted: &Authority, identity: Option<(String, String)>) -> TlsConnector {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.pem().as_bytes()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    TlsConnector::from(Arc::new(config))
}

async fn connected(address: SocketAddr, client: &TlsConnector) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await?;
    client.connect(ServerName::try_from("policy.test").unwrap(), stream).await
}

/// The name in the handshake of the policy API, over a connection of this client.
async fn name(address: SocketAddr, client: &TlsConnector) -> Result<String, String> {
    let mut stream = connected(address, client).await.map_err(|error| error.to_string())?;
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    // A preface and empty settings: the answer to a GetInfo is a matter of the plain tests.
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    stream.write_all(preface).await.map_err(|error| error.to_string())?;
    stream.flush().await.map_err(|error| error.to_string())?;
    let mut head = [0; 9];
    stream.read_exact(&mut head).await.map_err(|error| error.to_string())?;
    Ok(if head[3] == 4 { "HTTP/2 settings".to_owned() } else { format!("{head:?}") })
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_is_served() {
    let authority = Authority::new();
    let files = Files::new(&authority);
    let address = serving(Some(files.tls(None))).await;
    assert_eq!(soon(name(address, &client(&authority, None))).await.unwrap(), "HTTP/2 settings");
    let refused = soon(name(address, &client(&Authority::named("another"), None))).await.unwrap_err();
    assert!(refused.contains("UnknownIssuer"), "{refused}");
    // Without TLS there is no answer on this address.
    let plain = format!("http://{address}");
    let channel = tonic::transport::Channel::from_shared(plain).unwrap().connect_lazy();
    soon(PolicyServiceClient::new(channel).get_info(GetInfoRequest::default())).await.unwrap_err();
}

#[tokio::test]
async fn without_files_there_is_no_tls() {
    let address = serving(None).await;
    let plain = format!("http://{address}");
    let channel = tonic::transport::Channel::from_shared(plain).unwrap().connect().await.unwrap();
    let info = soon(PolicyServiceClient::new(channel).get_info(GetInfoRequest::default())).await.unwrap();
    assert_eq!(info.into_inner().name, "all-fit");
    soon(connected(address, &client(&Authority::named("another"), None))).await.unwrap_err();
}

#[tokio::test]
async fn with_client_certificates_no_other_client_is_served() {
    let (authority, clients, others) =
        (Authority::new(), Authority::named("clients"), Authority::named("others"));
    let files = Files::new(&authority);
    let address = serving(Some(files.tls(Some(&clients)))).await;
    let right = client(&authority, Some(clients.sign("gateway")));
    assert_eq!(soon(name(address, &right)).await.unwrap(), "HTTP/2 settings");
    let wrong = client(&authority, Some(others.sign("gateway")));
    let refused = soon(name(address, &wrong)).await.unwrap_err();
    assert!(refused.contains("UnknownCA") || refused.contains("reset"), "{refused}");
    let refused = soon(name(address, &client(&authority, None))).await.unwrap_err();
    assert!(refused.contains("CertificateRequired") || refused.contains("reset"), "{refused}");
    assert_eq!(soon(name(address, &right)).await.unwrap(), "HTTP/2 settings");
}

#[tokio::test]
async fn a_replaced_certificate_is_served_to_new_connections_and_a_broken_one_is_not() {
    let authority = Authority::new();
    let files = Files::new(&authority);
    let address = serving(Some(files.tls(None))).await;
    let client = client(&authority, None);
    let served = async || {
        let stream = connected(address, &client).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let first = soon(served()).await;
    files.renew(&authority);
    let second = soon(async {
        loop {
            let now = served().await;
            if now != first {
                return now;
            }
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    files.write("tls.crt", "garbage");
    let third = Files::new(&authority);
    // Longer than two reads of the files.
    sleep(Duration::from_millis(2_500)).await;
    assert_eq!(soon(served()).await, second);
    fs::copy(third.0.path().join("tls.key"), files.0.path().join("tls.key")).unwrap();
    fs::copy(third.0.path().join("tls.crt"), files.0.path().join("tls.crt")).unwrap();
    soon(async {
        while served().await == second {
            sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn clients_that_never_finish_their_handshake_hold_up_no_other_and_are_closed() {
    let authority = Authority::new();
    let files = Files::new(&authority);
    let address = serving(Some(files.tls(None))).await;
    let mut silent = Vec::new();
    for _ in 0..50 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // The beginning of a record.
        stream.write_all(&[0x16, 3, 1]).await.unwrap();
        silent.push(stream);
    }
    let client = client(&authority, None);
    let served = timeout(Duration::from_secs(4), name(address, &client)).await.unwrap();
    assert_eq!(served.unwrap(), "HTTP/2 settings");
    for stream in &mut silent {
        let read = soon(stream.read(&mut [0; 64])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
}
