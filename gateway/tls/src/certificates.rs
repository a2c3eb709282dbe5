//! The certificate files of a configuration, and how long they are valid.

use std::{collections::BTreeMap, path::PathBuf};

use extender_gateway_settings::{BackendName, Config, Mode, PageTls, ServerTls};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{PemError, PemFile, Validity, ValidityState};

/// A file with certificates that the configuration names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateFile {
    /// The path of its field, such as `backends[0].tls.caFile`.
    pub field: String,
    /// The file.
    pub path: PathBuf,
    /// What its certificates are for.
    pub role: CertificateRole,
    /// The backend to whose connection it belongs; `None` for an address of the gateway.
    pub backend: Option<BackendName>,
}

/// What certificates are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CertificateRole {
    /// The gateway's own chain, which peers check.
    Chain,
    /// The authorities that sign the certificates of peers.
    Authorities,
}

/// All files with certificates that a configuration uses, in the order of its fields.
pub fn certificate_files(config: &Config) -> Vec<CertificateFile> {
    let mut files = Vec::new();
    let mut add = |field: String, path: &PathBuf, role, backend| {
        files.push(CertificateFile { field, path: path.clone(), role, backend });
    };
    for (section, tls) in server_tls(config) {
        let field = |name: &str| format!("{section}.{name}");
        add(field("certFile"), &tls.identity.cert_file, CertificateRole::Chain, None);
        if let Some(clients) = &tls.clients {
            add(field("clientCAFile"), &clients.ca_file, CertificateRole::Authorities, None);
        }
    }
    for (at, backend) in config.backends.iter().enumerate() {
        let Some(tls) = backend.tls.as_ref().filter(|_| backend.mode != Mode::Disabled) else { continue };
        let (field, name) =
            (|name: &str| format!("backends[{at}].tls.{name}"), || Some(backend.name.clone()));
        add(field("caFile"), &tls.ca_file, CertificateRole::Authorities, name());
        if let Some(identity) = &tls.identity {
            add(field("certFile"), &identity.cert_file, CertificateRole::Chain, name());
        }
    }
    files
}

/// TLS of the gateway's own addresses, each with the path of its fields.
pub fn server_tls(config: &Config) -> impl Iterator<Item = (&'static str, &ServerTls)> {
    let all = [
        ("extender.tls", config.extender.tls.as_ref()),
        ("metrics.tls", config.metrics.tls.as_ref().map(PageTls::server)),
        ("admin.tls", config.admin.tls.as_ref().map(PageTls::server)),
    ];
    all.into_iter().filter_map(|(section, tls)| Some((section, tls?)))
}

impl CertificateFile {
    /// How long the file is valid; blocks while it is read. `None` if no certificate in it can be parsed.
    ///
    /// # Errors
    /// The file cannot be read, or has no certificate.
    pub fn validity(&self) -> Result<Option<Validity>, PemError> {
        match self.role {
            CertificateRole::Chain => PemFile::read("certFile", &self.path)?.chain_validity(),
            CertificateRole::Authorities => PemFile::read("caFile", &self.path)?.authorities_validity(),
        }
    }
}

/// The files of the configuration in use, as they were read last. A file that cannot be used keeps its latest state:
/// the certificates that were read from it stay in use.
#[derive(Debug, Default)]
pub struct Certificates(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    valid: BTreeMap<CertificateFile, (Validity, ValidityState)>,
    unusable: Vec<(CertificateFile, Unusable)>,
}

/// Why the certificates of a file are not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unusable {
    /// They cannot be read.
    Unreadable(String),
    /// One of them has expired, and those in use are valid.
    Expired(String),
}

impl Certificates {
    /// Records what was read. Logs each file whose state has changed.
    pub fn update(&self, read: Vec<(CertificateFile, Result<Validity, String>)>, now: Timestamp) {
        let mut known = self.0.lock();
        let mut next = Known::default();
        for (file, validity) in read {
            let (before, state) = known.valid.remove(&file).unzip();
            let refused = match &validity {
                Err(why) => Some(Unusable::Unreadable(why.clone())),
                Ok(new) => before
                    .as_ref()
                    // The gateway keeps its own certificate while that is valid.
                    .filter(|_| file.role == CertificateRole::Chain && file.backend.is_none())
                    .and_then(|used| new.expired_before(Some(used), now))
                    .map(Unusable::Expired),
            };
            let validity = validity.ok().filter(|_| refused.is_none()).or(before);
            next.unusable.extend(refused.map(|why| (file.clone(), why)));
            let Some(validity) = validity else { continue };
            log(&file, state, &validity, now);
            let state = validity.state(now);
            next.valid.insert(file, (validity, state));
        }
        *known = next;
    }

    /// The files that cannot be used, and why.
    pub fn unusable(&self) -> Vec<(CertificateFile, Unusable)> {
        self.0.lock().unusable.clone()
    }

    /// The files with their validity.
    pub fn all(&self) -> Vec<(CertificateFile, Validity)> {
        self.0.lock().valid.iter().map(|(file, (validity, _))| (file.clone(), validity.clone())).collect()
    }
}

/// A line when a file gets into a state. `before` is `None` when it is read for the first time.
fn log(file: &CertificateFile, before: Option<ValidityState>, validity: &Validity, now: Timestamp) {
    let CertificateFile { field, path, .. } = file;
    let was_valid = before.is_none_or(|before| before == ValidityState::Valid);
    match validity.problem(now) {
        Some(problem) if before != Some(validity.state(now)) => {
            tracing::warn!(file = %path.display(), "{field}: {problem}; renew it");
        }
        None if !was_valid => {
            tracing::info!(file = %path.display(), ends = %validity.ends, "{field}: certificate {} was renewed", validity.name);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_settings::samples;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn all_files_of_a_configuration_are_known() {
        let tls = "tls: {caFile: /ca.crt, certFile: /tls.crt, keyFile: /tls.key}";
        let config = samples::config(&format!(
            "- {{name: a, url: 'http://a:1', filter: {{}}}}\n- {{name: b, url: 'https://b:1', {tls}, filter: {{}}}}\n\
             - {{name: c, url: 'https://c:1', {tls}, filter: {{}}, mode: Disabled}}\n\
             extender: {{tls: {{certFile: /e.crt, keyFile: /e.key, clientCAFile: /clients.crt}}}}\n"
        ));
        let files = certificate_files(&config);
        let shown: Vec<_> = files
            .iter()
            .map(|file| (&*file.field, file.path.to_str().unwrap(), file.role == CertificateRole::Chain))
            .collect();
        assert_eq!(
            shown,
            [
                ("extender.tls.certFile", "/e.crt", true),
                ("extender.tls.clientCAFile", "/clients.crt", false),
                ("backends[1].tls.caFile", "/ca.crt", false),
                ("backends[1].tls.certFile", "/tls.crt", true),
            ]
        );
    }

    #[test]
    fn an_unusable_file_keeps_its_state_and_one_of_no_configuration_is_forgotten() {
        let file = |field: &str| CertificateFile {
            field: field.to_owned(),
            path: "/tls.crt".into(),
            role: CertificateRole::Chain,
            backend: None,
        };
        let validity = Validity { name: "a".to_owned(), begins: at(0), ends: at(1_000) };
        let certificates = Certificates::default();
        let unusable = || Err("it is empty".to_owned());
        certificates.update(vec![(file("a"), Ok(validity.clone())), (file("b"), unusable())], at(1));
        assert_eq!(certificates.all(), [(file("a"), validity.clone())]);
        assert_eq!(certificates.unusable(), [(file("b"), Unusable::Unreadable("it is empty".to_owned()))]);
        certificates.update(vec![(file("a"), unusable())], at(2));
        assert_eq!(certificates.all(), [(file("a"), validity.clone())]);
        assert_eq!(certificates.unusable(), [(file("a"), Unusable::Unreadable("it is empty".to_owned()))]);
        certificates.update(vec![(file("a"), Ok(validity))], at(3));
        assert_eq!(certificates.unusable(), []);
        let earlier = Validity { name: "old".to_owned(), begins: at(0), ends: at(2) };
        certificates.update(vec![(file("a"), Ok(earlier))], at(3));
        assert_eq!(certificates.all()[0].1.ends, at(1_000), "the valid one stays in use");
        assert!(matches!(certificates.unusable()[..], [(_, Unusable::Expired(_))]));
        certificates.update(Vec::new(), at(4));
        assert_eq!(certificates.all(), []);
    }
}
