//! TLS settings: the files, and which clients are accepted.

use std::path::{Path, PathBuf};

use extender_config::{Cursor, Remedy, Section, echo, names};

use super::setting::{Setting, Yaml, choices, fields, list, write_scalar};
use super::url;

/// A certificate chain and its key, both PEM. Changed files are reloaded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyPair {
    /// The chain, with the own certificate first.
    pub cert_file: PathBuf,
    /// The key, PKCS #8, PKCS #1 or SEC 1.
    pub key_file: PathBuf,
}

/// TLS on an address of the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    /// The gateway's certificate.
    pub identity: KeyPair,
    /// Client certificates. `None`: not requested.
    pub clients: Option<ClientCertificates>,
}

/// Which client certificates an address accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificates {
    /// PEM certificates of the CAs that sign them.
    pub ca_file: PathBuf,
    /// Whether a client without one is accepted. Default Required.
    pub presence: ClientCertificate,
    /// A certificate must have one of these as its common name or a DNS name; empty accepts every certificate of
    /// the CAs.
    pub allowed_names: Vec<String>,
}

choices! {
    /// Whether a client must send a certificate.
    pub enum ClientCertificate {
        /// Yes.
        Required = "Required",
        /// No, but one that is sent must be valid.
        Optional = "Optional",
    }
}

/// How to reach a backend with an `https` URL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendTls {
    /// PEM certificates of the CAs that may sign the backend's.
    pub ca_file: PathBuf,
    /// The gateway's client certificate. `None`: none.
    pub identity: Option<KeyPair>,
    /// The name that the backend's certificate must have. `None`: the URL's host.
    pub server_name: Option<String>,
}

fields! {
    ServerTls: "a mapping such as {certFile: tls.crt, keyFile: tls.key}";
    /// The gateway's certificate chain, its own certificate first, PEM.
    "certFile": PathBuf, required;
    /// The private key of that certificate, PEM.
    "keyFile": PathBuf, required;
    /// The CAs of client certificates, PEM. If absent, callers need no certificate. [kube-scheduler's plugin](plugin.md) is answered on
    /// connections with one, and can have pods counted.
    "clientCAFile": PathBuf, absent("none");
    /// With `clientCAFile`. `Required`: callers without a certificate are rejected. `Optional`: they are accepted, but a certificate
    /// that is sent must be valid.
    "clientCertificate": ClientCertificate, default(ClientCertificate::Required);
    /// With `clientCAFile`. A client certificate must have one of these names, as common name or DNS name. `[]`: every certificate of
    /// the CAs is accepted.
    "allowedNames" as (TEXTS): Vec<String>, absent("`[]`");
}

fields! {
    BackendTls: "a mapping such as {caFile: ca.crt}";
    /// The CAs of the backend's certificate, PEM.
    "caFile": PathBuf, required;
    /// The gateway's client certificate chain for the backend, PEM.
    "certFile": PathBuf, absent("none");
    /// Its private key, PEM; set both or neither.
    "keyFile": PathBuf, absent("none");
    /// The name that the backend's certificate must have: a DNS name or an IP address.
    "serverName" as (NOT_EMPTY): String, absent("the URL's host");
}

const CERT: &str = "the certificate chain, a PEM file";
const KEY: &str = "the key, a PEM file";
const CA: &str = "the CA certificates, a PEM file";
const NAMES: &str = "a list of names of certificates such as ['system:kube-scheduler']";
const SERVER_NAME: &str = "a DNS name or IP address such as rack-drain.policies.svc";

impl Setting for ServerTls {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let fields = field.clone().section(&Self::FIELDS)?;
        let identity = KeyPair::read(&fields);
        let presence = fields.or("clientCertificate", ClientCertificate::Required, Setting::read);
        let clients = if fields.has("clientCAFile") {
            presence.and_then(|presence| ClientCertificates::read(&fields, presence)).map(Some)
        } else {
            ClientCertificates::expect_none(&fields);
            presence.map(|_| None)
        };
        Some(Self { identity: identity?, clients: clients? })
    }

    fn write(&self, out: &mut Yaml) {
        let Self { identity, clients } = self;
        out.mapping(|out| {
            identity.write(out);
            match clients {
                Some(clients) => clients.write(out),
                None => out.absent("clientCAFile", "none, clients need no certificate"),
            }
        });
    }
}

impl Setting for BackendTls {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let fields = field.clone().section(&Self::FIELDS)?;
        let ca_file = required_file(&fields, "caFile", CA);
        let server_name =
            fields.or("serverName", None, |field| field.parsed(SERVER_NAME, server_name).map(Some));
        let has_identity = fields.has("certFile") || fields.has("keyFile");
        let identity = if has_identity { KeyPair::read(&fields).map(Some) } else { Some(None) };
        Some(Self { ca_file: ca_file?, identity: identity?, server_name: server_name? })
    }

    fn write(&self, out: &mut Yaml) {
        let Self { ca_file, identity, server_name } = self;
        out.mapping(|out| {
            out.field("caFile", |out| ca_file.write(out));
            match identity {
                Some(identity) => identity.write(out),
                None => out.absent("certFile, keyFile", "none"),
            }
            match server_name {
                Some(name) => out.field("serverName", |out| write_scalar(name, out)),
                None => out.absent("serverName", "the URL's host"),
            }
        });
    }
}

impl KeyPair {
    pub(super) fn read(fields: &Section<'_>) -> Option<Self> {
        let cert_file = required_file(fields, "certFile", CERT);
        let key_file = required_file(fields, "keyFile", KEY);
        Some(Self { cert_file: cert_file?, key_file: key_file? })
    }

    pub(super) fn write(&self, out: &mut Yaml) {
        let Self { cert_file, key_file } = self;
        out.field("certFile", |out| cert_file.write(out));
        out.field("keyFile", |out| key_file.write(out));
    }
}

impl ClientCertificates {
    /// Records settings that have no effect without a `clientCAFile`.
    pub(super) fn expect_none(fields: &Section<'_>) {
        let remedy = Remedy::Do("add clientCAFile, or remove it");
        for name in ["clientCertificate", "allowedNames"].into_iter().filter(|name| fields.has(name)) {
            fields.mistake_of(name, "is used only with clientCAFile", remedy);
        }
    }

    pub(super) fn read(fields: &Section<'_>, presence: ClientCertificate) -> Option<Self> {
        let allowed_names = fields.or("allowedNames", Vec::new(), |field| {
            field.list(NAMES, |name| name.parsed("a common name or DNS name", names::not_empty))
        });
        let ca_file = required_file(fields, "clientCAFile", CA);
        Some(Self { ca_file: ca_file?, presence, allowed_names: allowed_names? })
    }

    fn write(&self, out: &mut Yaml) {
        let Self { ca_file, presence, allowed_names } = self;
        Self::write_authorities(ca_file, out);
        out.field("clientCertificate", |out| presence.write(out));
        Self::write_names(allowed_names, out);
    }

    pub(super) fn write_authorities(ca_file: &Path, out: &mut Yaml) {
        out.field("clientCAFile", |out| ca_file.to_path_buf().write(out));
    }

    pub(super) fn write_names(allowed_names: &[String], out: &mut Yaml) {
        let any = if allowed_names.is_empty() { "  # any" } else { "" };
        out.field("allowedNames", |out| out.inline(&format!("{}{any}", list(allowed_names))));
    }
}

/// The name of a certificate: a host as in a URL, an IPv6 address without brackets.
fn server_name(text: &str) -> Result<String, String> {
    if url::is_host(text) { Ok(text.to_owned()) } else { Err(format!("{} is not a host", echo(text))) }
}

fn required_file(fields: &Section<'_>, name: &str, right: &str) -> Option<PathBuf> {
    fields.required(name, right)?.file()
}
