//! TLS of connections that the gateway and its commands open.

use std::{io, path::Path, sync::Arc};

use extender_gateway_settings::KeyPair;
use jiff::Timestamp;
use rustls::{CertificateError, ClientConfig, crypto::ring, pki_types::UnixTime};

use super::{IdentityFiles, PemError, PemFile};

/// TLS 1.2 and 1.3 with servers whose certificates are signed by a CA in this file, which `field` names; blocks while files
/// are read. No protocol is offered.
///
/// # Errors
/// The file that cannot be used.
pub fn client_config(
    field: &'static str,
    authorities: &Path,
    identity: Option<&KeyPair>,
) -> Result<ClientConfig, PemError> {
    let authorities = PemFile::read(field, authorities)?.authorities()?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3")
        .with_root_certificates(authorities);
    match identity {
        None => Ok(builder.with_no_client_auth()),
        Some(pair) => {
            IdentityFiles::read(pair)?.build(|chain, key| builder.with_client_auth_cert(chain, key))
        }
    }
}

/// Why a TLS handshake failed. rustls writes the present time into the error about an expired certificate; without it,
/// a pod's condition stays the same.
pub fn handshake_text(error: &io::Error) -> String {
    let Some(rustls::Error::InvalidCertificate(invalid)) = tls_error(error) else { return error.to_string() };
    let what = match invalid {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("certificate expired on {}", date(*not_after))
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("certificate not valid before {}", date(*not_before))
        }
        _ => return error.to_string(),
    };
    format!("invalid peer certificate: {what}")
}

/// The error of TLS, if it is one.
pub fn tls_error(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

fn date(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).ok();
    let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(
        || "an unknown date".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn text(error: CertificateError) -> String {
        handshake_text(&io::Error::new(io::ErrorKind::InvalidData, rustls::Error::InvalidCertificate(error)))
    }

    #[test]
    fn a_certificate_that_is_not_valid_has_the_same_text_at_each_attempt() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for time in [1_795_302_001, 1_795_302_002] {
            let expired = CertificateError::ExpiredContext { time: at(time), not_after: at(1_795_302_000) };
            let said = "invalid peer certificate: certificate expired on 2026-11-21 23:00:00 UTC";
            assert_eq!(text(expired), said);
            let early =
                CertificateError::NotValidYetContext { time: at(time), not_before: at(1_795_305_600) };
            let said = "invalid peer certificate: certificate not valid before 2026-11-22 00:00:00 UTC";
            assert_eq!(text(early), said);
        }
        assert_eq!(text(CertificateError::UnknownIssuer), "invalid peer certificate: UnknownIssuer");
        assert_eq!(handshake_text(&io::ErrorKind::UnexpectedEof.into()), "unexpected end of file");
    }
}
