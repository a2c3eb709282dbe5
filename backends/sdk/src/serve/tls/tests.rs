use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
};

use rcgen::{CertifiedKey, KeyPair};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;

/// A certificate and its key in a folder.
struct Pair(TempDir);

impl Pair {
    fn new() -> Self {
        let pair = Self(TempDir::new().unwrap());
        pair.renew();
        pair
    }

    fn renew(&self) {
        let CertifiedKey { cert, signing_key } =
            rcgen::generate_simple_self_signed(["policy.test".to_owned()]).unwrap();
        self.write("tls.crt", &cert.pem());
        self.write("tls.key", &signing_key.serialize_pem());
    }

    fn write(&self, name: &str, content: &str) {
        fs::write(self.0.path().join(name), content).unwrap();
    }

    fn files(&self) -> TlsFiles {
        let path = |name: &str| Path::join(self.0.path(), name);
        TlsFiles { cert: path("tls.crt"), key: path("tls.key"), client_ca: None }
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

/// Waits for five reads of the files.
async fn five_reads(tls: &Tls) {
    timeout(READ_PERIOD * 5 + READ_PERIOD / 2, tls.follow()).await.unwrap_err();
}

#[test]
fn a_file_that_cannot_be_used_is_named_with_its_option_and_the_remedy() {
    let pair = Pair::new();
    pair.write("tls.key", &KeyPair::generate().unwrap().serialize_pem());
    let error = || Tls::open(pair.files()).unwrap_err().to_string();
    let said = error();
    assert!(said.starts_with("--tls-key /") && said.contains("tls.key: does not match /"), "{said}");
    pair.write("tls.crt", "");
    let said = error();
    assert!(
        said.starts_with("--tls-cert /") && said.contains("tls.crt: has no certificate; expected"),
        "{said}"
    );
    fs::remove_file(pair.0.path().join("tls.key")).unwrap();
    let said = error();
    assert!(
        said.starts_with("--tls-key /") && said.contains("tls.key: cannot be read: No such file"),
        "{said}"
    );
    pair.renew();
    pair.write("ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let client_ca = Some(pair.0.path().join("ca.crt"));
    let said = Tls::open(TlsFiles { client_ca, ..pair.files() }).unwrap_err().to_string();
    assert!(said.starts_with("--tls-client-ca /") && said.contains("ca.crt: not a CA certificate"), "{said}");
}

#[test]
fn a_key_never_gets_into_a_log() {
    let pair = Pair::new();
    let tls = Tls::open(pair.files()).unwrap();
    let key = fs::read_to_string(pair.files().key).unwrap();
    let line = key.lines().nth(1).unwrap();
    assert!(!format!("{tls:?}").contains(line));
    assert!(!format!("{:?}", tls.first).contains(&format!("{:?}", line.as_bytes())));
}

#[tokio::test(start_paused = true)]
async fn files_are_followed_and_a_broken_one_is_logged_once() {
    let (pair, log) = (Pair::new(), Log::default());
    let written = log.clone();
    let subscriber = tracing_subscriber::fmt().with_writer(move || written.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let tls = Tls::open(pair.files()).unwrap();
    let first = tls.current.load_full();
    five_reads(&tls).await;
    assert!(Arc::ptr_eq(&first, &tls.current.load()), "nothing changed");
    pair.write("tls.crt", "garbage");
    five_reads(&tls).await;
    assert!(Arc::ptr_eq(&first, &tls.current.load()), "the old one stays");
    assert_eq!((log.lines("WARN"), log.lines("stay in use: --tls-cert ")), (1, 1));
    pair.renew();
    five_reads(&tls).await;
    assert!(!Arc::ptr_eq(&first, &tls.current.load()));
    assert_eq!((log.lines("WARN"), log.lines("TLS certificates reloaded")), (1, 1));
}
