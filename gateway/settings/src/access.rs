//! Who may use the metrics and the admin address: TLS with client certificates, and bearer tokens that the apiserver
//! checks.

use std::net::SocketAddr;

use extender_config::{Cursor, Section};

use super::setting::{Setting, Yaml, choices, fields};
use super::telemetry::{AdminParts, MetricsParts};
use super::tls::{ClientCertificate, ClientCertificates, KeyPair, ServerTls};

choices! {
    /// How a request without a client certificate is authorized.
    pub enum Authorization {
        /// Not at all: it is refused if there is a `clientCAFile`, and otherwise answered.
        None = "None",
        /// By a bearer token, which the apiserver checks with a `TokenReview` and a `SubjectAccessReview`.
        Kubernetes = "Kubernetes",
    }
}

/// TLS on the metrics or the admin address. Handshakes succeed without a client certificate, because kubelet has none
/// for its probes; other requests are refused without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageTls(ServerTls);

fields! {
    PageTls: "a mapping such as {certFile: tls.crt, keyFile: tls.key}",
        unsupported &[(
            "clientCertificate",
            "remove it: with clientCAFile a request needs a certificate or an authorized token, and probes need neither",
        )];
    /// The gateway's certificate chain, as for `extender.tls`.
    "certFile" as (NOT_EMPTY): PathBuf, required;
    /// The private key of that certificate, PEM.
    "keyFile" as (NOT_EMPTY): PathBuf, required;
    /// The CAs of client certificates, PEM. If set, a request needs a client certificate, or a token with `authorization: Kubernetes`;
    /// probes of the metrics address need neither.
    "clientCAFile" as (NOT_EMPTY): PathBuf, absent("none");
    /// With `clientCAFile`. A client certificate must have one of these names, as common name or DNS name. `[]`: every certificate of
    /// the CAs is accepted.
    "allowedNames" as (TEXTS): Vec<String>, absent("`[]`");
}

impl PageTls {
    /// The server's settings, with optional client certificates.
    pub fn server(&self) -> &ServerTls {
        &self.0
    }
}

impl Setting for PageTls {
    const KNOWN: &'static [&'static str] = Self::FIELDS.known;

    fn read(field: &Cursor<'_>) -> Option<Self> {
        let fields = field.clone().section(&Self::FIELDS)?;
        let identity = KeyPair::read(&fields);
        let clients = if fields.has("clientCAFile") {
            ClientCertificates::read(&fields, ClientCertificate::Optional).map(Some)
        } else {
            ClientCertificates::expect_none(&fields);
            Some(None)
        };
        Some(Self(ServerTls { identity: identity?, clients: clients? }))
    }

    fn write(&self, out: &mut Yaml) {
        let Self(ServerTls { identity, clients }) = self;
        out.mapping(|out| {
            identity.write(out);
            match clients {
                Some(ClientCertificates { ca_file, presence: _, allowed_names }) => {
                    ClientCertificates::write_authorities(ca_file, out);
                    ClientCertificates::write_names(allowed_names, out);
                }
                None => out.absent("clientCAFile", "none"),
            }
        });
    }
}

pub(super) fn check_metrics(fields: &Section<'_>, parts: &mut MetricsParts) {
    let MetricsParts { address, tls, authorization } = parts;
    check_tokens(fields, (*address, tls.as_ref().map(Option::is_some), *authorization));
}

pub(super) fn check_admin(fields: &Section<'_>, parts: &mut AdminParts) {
    let AdminParts { address, hosts: _, tls, authorization } = parts;
    check_tokens(fields, (*address, tls.as_ref().map(Option::is_some), *authorization));
}

/// Tokens are not sent through a network in the clear. A part is `None` if it has a mistake of its own.
fn check_tokens(fields: &Section<'_>, parts: (Option<SocketAddr>, Option<bool>, Option<Authorization>)) {
    let (Some(address), Some(has_tls), Some(Authorization::Kubernetes)) = parts else { return };
    if !has_tls && !address.ip().is_loopback() {
        let wrong = format!("would have tokens sent to {address} without TLS");
        fields.mistake_of(
            "authorization",
            wrong,
            "None, tls with certFile and keyFile, or a loopback address",
        );
    }
}
