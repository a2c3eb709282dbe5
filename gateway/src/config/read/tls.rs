//! The fields of `tls`, of the extender and of backends.

use std::path::{Path, PathBuf};

use super::super::cursor::{Cursor, Fields, Read, Section};
use super::super::mistake::echo;
use super::super::{BackendTls, ClientCertificate, ClientCertificates, KeyPair, ServerTls, url};
use super::value::{choice, field_or, list, not_empty, path};

pub(super) const SERVER: Fields = Fields {
    right: "a mapping such as {certFile: tls.crt, keyFile: tls.key}",
    known: &["certFile", "keyFile", "clientCAFile", "clientCertificate", "allowedNames"],
    unsupported: &[],
};
pub(super) const BACKEND: Fields = Fields {
    right: "a mapping such as {caFile: ca.crt}",
    known: &["caFile", "certFile", "keyFile", "serverName"],
    unsupported: &[],
};

const CERT: &str = "the certificate chain, a PEM file";
const KEY: &str = "the key, a PEM file";
const CA: &str = "the certificates of the authorities, a PEM file";
const NAMES: &str = "a list of names of certificates such as ['system:kube-scheduler']";
const SERVER_NAME: &str = "a DNS name or IP address such as rack-drain.policies.svc";

/// How the extender's address speaks TLS.
pub(super) fn server(field: Cursor<'_>, folder: &Path) -> Option<ServerTls> {
    let fields = field.section(&SERVER)?;
    let cert_file = required_path(&fields, "certFile", CERT, folder);
    let key_file = required_path(&fields, "keyFile", KEY, folder);
    let clients = clients(&fields, folder);
    Some(ServerTls { identity: KeyPair { cert_file: cert_file?, key_file: key_file? }, clients: clients? })
}

fn clients(fields: &Section<'_>, folder: &Path) -> Read<Option<ClientCertificates>> {
    let presence = field_or(fields, "clientCertificate", ClientCertificate::Required, choice);
    let allowed_names = field_or(fields, "allowedNames", Vec::new(), |field| {
        list(field, NAMES, ("a common name or DNS name", not_empty))
    });
    let Some(ca) = fields.optional("clientCAFile") else {
        for name in ["clientCertificate", "allowedNames"] {
            if fields.optional(name).is_some() {
                fields.mistake_of(
                    name,
                    "is only read with clientCAFile",
                    "add clientCAFile, or leave it out",
                );
            }
        }
        return Some(None);
    };
    let ca_file = path(&ca, folder);
    let clients =
        ClientCertificates { ca_file: ca_file?, presence: presence?, allowed_names: allowed_names? };
    Some(Some(clients))
}

/// How a backend with an `https` URL is reached.
pub(super) fn backend(field: Cursor<'_>, folder: &Path) -> Option<BackendTls> {
    let fields = field.section(&BACKEND)?;
    let ca_file = required_path(&fields, "caFile", CA, folder);
    let server_name =
        field_or(&fields, "serverName", None, |field| field.parsed(SERVER_NAME, server_name).map(Some));
    let identity = identity(&fields, folder);
    Some(BackendTls { ca_file: ca_file?, identity: identity?, server_name: server_name? })
}

/// What the gateway shows: both files or none.
fn identity(fields: &Section<'_>, folder: &Path) -> Read<Option<KeyPair>> {
    if ["certFile", "keyFile"].iter().all(|name| fields.optional(name).is_none()) {
        return Some(None);
    }
    let cert_file = required_path(fields, "certFile", CERT, folder);
    let key_file = required_path(fields, "keyFile", KEY, folder);
    Some(Some(KeyPair { cert_file: cert_file?, key_file: key_file? }))
}

/// The name of a certificate: a host as in a URL, an IPv6 address without brackets.
fn server_name(text: &str) -> Result<String, String> {
    if url::is_host(text) { Ok(text.to_owned()) } else { Err(format!("{} is not a host", echo(text))) }
}

fn required_path(fields: &Section<'_>, name: &str, right: &str, folder: &Path) -> Option<PathBuf> {
    path(&fields.required(name, right)?, folder)
}
