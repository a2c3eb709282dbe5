use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
};

use extender_gateway_settings as config;
use rcgen::{CertifiedKey, KeyPair};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// Two files in a folder.
struct Pair(TempDir);

impl Pair {
    fn new() -> Self {
        let pair = Self(TempDir::new().unwrap());
        pair.renew();
        pair
    }

    fn renew(&self) {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["gateway.test".to_owned()]).unwrap();
        self.write("tls.crt", &cert.pem());
        self.write("tls.key", &signing_key.serialize_pem());
    }

    /// A pair whose certificate has expired.
    fn expire(&self) {
        let mut params = rcgen::CertificateParams::new(["gateway.test".to_owned()]).unwrap();
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
        let key = KeyPair::generate().unwrap();
        self.write("tls.crt", &params.self_signed(&key).unwrap().pem());
        self.write("tls.key", &key.serialize_pem());
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.path().join(name), content).unwrap();
    }

    fn settings(&self) -> ServerTls {
        let path = |name: &str| Path::join(self.0.path(), name);
        let identity = config::KeyPair { cert_file: path("tls.crt"), key_file: path("tls.key") };
        ServerTls { identity, clients: None }
    }
}

/// A log to read back.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    fn lines(&self, with: &str) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        text.lines().filter(|line| line.contains(with)).count()
    }
}

/// Waits for five checks of the files.
async fn five_reads(tls: &Tls) {
    timeout(READ_PERIOD * 5 + READ_PERIOD / 2, tls.follow()).await.unwrap_err();
}

#[test]
fn files_that_cannot_be_used_at_the_start_are_named() {
    let pair = Pair::new();
    pair.write("tls.key", &KeyPair::generate().unwrap().serialize_pem());
    let error = Tls::open(pair.settings()).unwrap_err().to_string();
    assert!(
        error.starts_with("extender.tls.keyFile: ") && error.contains("tls.key: does not match /"),
        "{error}"
    );
    pair.write("tls.crt", "");
    let error = Tls::open(pair.settings()).unwrap_err().to_string();
    assert!(
        error.starts_with("extender.tls.certFile: ") && error.contains("tls.crt: has no certificate"),
        "{error}"
    );
    fs::remove_file(pair.0.path().join("tls.key")).unwrap();
    let error = Tls::open(pair.settings()).unwrap_err().to_string();
    assert!(
        error.starts_with("extender.tls.keyFile: ") && error.contains("tls.key: cannot be read"),
        "{error}"
    );
}

#[tokio::test(start_paused = true)]
async fn files_are_followed_and_bad_ones_are_said_once() {
    let (pair, log) = (Pair::new(), Log::default());
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || written.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let tls = Tls::open(pair.settings()).unwrap();
    let first = tls.current.load_full();
    five_reads(&tls).await;
    assert!(Arc::ptr_eq(&first, &tls.current.load()), "nothing changed");
    pair.write("tls.crt", "garbage");
    five_reads(&tls).await;
    assert!(Arc::ptr_eq(&first, &tls.current.load()), "the old one stays");
    assert_eq!((log.lines("WARN"), log.lines("stay in use: certFile: ")), (1, 1));
    pair.renew();
    five_reads(&tls).await;
    assert!(!Arc::ptr_eq(&first, &tls.current.load()));
    assert_eq!((log.lines("WARN"), log.lines("certificates of extender.tls reloaded")), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_expired_certificate_does_not_replace_a_valid_one() {
    // Without a subscriber, a line that is written here first could be switched off for the test above.
    let _guard = tracing::subscriber::set_default(tracing_subscriber::fmt().with_writer(io::sink).finish());
    let pair = Pair::new();
    let tls = Tls::open(pair.settings()).unwrap();
    let first = tls.current.load_full();
    pair.expire();
    five_reads(&tls).await;
    assert!(Arc::ptr_eq(&first, &tls.current.load()), "the valid one stays");
    pair.renew();
    five_reads(&tls).await;
    assert!(!Arc::ptr_eq(&first, &tls.current.load()), "a valid one is used");
    // With an expired certificate, the authorities are replaced all the same.
    let authority = |name: &str| rcgen::generate_simple_self_signed([name.to_owned()]).unwrap().cert.pem();
    pair.write("ca.crt", &authority("one"));
    let clients = ClientCertificates {
        ca_file: pair.0.path().join("ca.crt"),
        presence: ClientCertificate::Required,
        allowed_names: Vec::new(),
    };
    let tls = Tls::open(ServerTls { clients: Some(clients), ..pair.settings() }).unwrap();
    let first = tls.current.load_full();
    pair.expire();
    five_reads(&tls).await;
    assert!(Arc::ptr_eq(&first, &tls.current.load()));
    pair.write("ca.crt", &authority("another"));
    five_reads(&tls).await;
    assert!(!Arc::ptr_eq(&first, &tls.current.load()), "an authority that is removed is not trusted");
    // At the start there is none to keep.
    pair.expire();
    let tls = Tls::open(pair.settings()).unwrap();
    let first = tls.current.load_full();
    pair.expire();
    five_reads(&tls).await;
    assert!(!Arc::ptr_eq(&first, &tls.current.load()), "it is no worse");
}
