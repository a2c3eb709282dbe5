//! When certificates begin and cease to be valid.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_parser::{extensions::GeneralName, parse_x509_certificate, prelude::X509Certificate};

use super::{PemError, PemFile};

/// A certificate that ends earlier than this, in seconds, is reported: renewals that failed are noticed in time.
const WARNING: i64 = 14 * 86_400;
/// A certificate that is valid for less than 70 days is reported in this part of its validity. Programs that renew it
/// do so when a third is left.
const LAST_PART: i64 = 5;
/// The most characters of a certificate's name.
const LONGEST_NAME: usize = 200;

/// The validity of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Validity {
    /// Its common name, or its first DNS name; for people.
    pub name: String,
    /// `notBefore`.
    pub begins: Timestamp,
    /// `notAfter`.
    pub ends: Timestamp,
}

/// Whether a certificate can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ValidityState {
    /// Yes.
    Valid,
    /// Yes, but it ends within 14 days, or within the last fifth of its validity if that is less.
    EndsSoon,
    /// No, it has expired.
    Expired,
    /// No, it is not valid yet.
    NotYetValid,
}

impl Validity {
    /// That of a certificate; `None` if it cannot be parsed.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(certificate).ok()?;
        let validity = certificate.validity();
        Some(Self {
            name: name(&certificate).chars().take(LONGEST_NAME).collect(),
            begins: Timestamp::from_second(validity.not_before.timestamp()).ok()?,
            ends: Timestamp::from_second(validity.not_after.timestamp()).ok()?,
        })
    }

    /// Its state at a time.
    pub fn state(&self, now: Timestamp) -> ValidityState {
        let seconds_until_end = |from: Timestamp| self.ends.as_second().saturating_sub(from.as_second());
        let last_part = seconds_until_end(self.begins) / LAST_PART;
        let warning = WARNING.min(last_part);
        match seconds_until_end(now) {
            ..=0 => ValidityState::Expired,
            _ if now < self.begins => ValidityState::NotYetValid,
            left if left < warning => ValidityState::EndsSoon,
            _ => ValidityState::Valid,
        }
    }

    /// That it has expired, as [`Self::problem`] says it, if the one in use is not known to have: it must not
    /// replace that.
    pub fn expired_before(&self, used: Option<&Self>, now: Timestamp) -> Option<String> {
        let is_expired = |validity: &Self| validity.state(now) == ValidityState::Expired;
        (is_expired(self) && !used.is_some_and(is_expired)).then(|| self.problem(now))?
    }

    /// What is wrong with it at a time, as the predicate of a sentence about it; `None` if nothing is.
    pub fn problem(&self, now: Timestamp) -> Option<String> {
        let Self { name, begins, ends } = self;
        let date = |time: &Timestamp| time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
        let days = ends.as_second().saturating_sub(now.as_second()) / 86_400;
        match self.state(now) {
            ValidityState::Valid => None,
            ValidityState::EndsSoon => {
                Some(format!("certificate {name} expires in {days} d, on {}", date(ends)))
            }
            ValidityState::Expired => Some(format!("certificate {name} has expired on {}", date(ends))),
            ValidityState::NotYetValid => {
                Some(format!("certificate {name} is not valid before {}", date(begins)))
            }
        }
    }
}

fn name(certificate: &X509Certificate<'_>) -> String {
    let common = certificate.subject().iter_common_name().find_map(|name| name.as_str().ok());
    let alternatives = certificate.subject_alternative_name().ok().flatten();
    let mut alternatives = alternatives.iter().flat_map(|extension| &extension.value.general_names);
    let dns = alternatives.find_map(|name| match name {
        GeneralName::DNSName(name) => Some(*name),
        _ => None,
    });
    common.or(dns).map_or_else(|| certificate.subject().to_string(), str::to_owned)
}

impl PemFile {
    /// The validity of the certificate that ends first: a chain is valid only as a whole. `None` if none can be parsed.
    ///
    /// # Errors
    /// The file has no certificate.
    pub fn chain_validity(&self) -> Result<Option<Validity>, PemError> {
        Ok(self.certificates()?.iter().filter_map(Validity::of).min_by_key(|validity| validity.ends))
    }

    /// The validity of the certificate that ends last: while an authority is replaced, a file has the old and the new
    /// one. `None` if none can be parsed.
    ///
    /// # Errors
    /// The file has no certificate.
    pub fn authorities_validity(&self) -> Result<Option<Validity>, PemError> {
        Ok(self.certificates()?.iter().filter_map(Validity::of).max_by_key(|validity| validity.ends))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use rcgen::{CertificateParams, DnType, KeyPair};
    use rustls::{
        client::{WebPkiServerVerifier, danger::ServerCertVerifier},
        crypto::ring,
        pki_types::UnixTime,
    };

    use super::*;

    const DAY: i64 = 86_400;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// A certificate that is valid between two days of the year 2027.
    fn pem(name: &str, from: u8, to: u8) -> String {
        let mut params = CertificateParams::new(vec![format!("{name}.test")]).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        if name != "nameless" {
            params.distinguished_name.push(DnType::CommonName, name);
        }
        params.not_before = rcgen::date_time_ymd(2027, 1, from);
        params.not_after = rcgen::date_time_ymd(2027, 1, to);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn file(pems: &[String]) -> PemFile {
        PemFile { field: "certFile", path: "tls.crt".into(), content: pems.concat().into() }
    }

    #[test]
    fn a_certificate_is_valid_between_two_moments() {
        let new_year = "2027-01-01T00:00:00Z".parse::<Timestamp>().unwrap().as_second();
        let validity = file(&[pem("gateway", 5, 25)]).chain_validity().unwrap().unwrap();
        assert_eq!((validity.begins, validity.ends), (at(new_year + 4 * DAY), at(new_year + 24 * DAY)));
        for (second, expected) in [
            (0, Some("certificate gateway is not valid before 2027-01-05 00:00:00 UTC")),
            (4 * DAY, None),
            (20 * DAY, None),
            (20 * DAY + 1, Some("certificate gateway expires in 3 d, on 2027-01-25 00:00:00 UTC")),
            (24 * DAY - 1, Some("certificate gateway expires in 0 d, on 2027-01-25 00:00:00 UTC")),
            (24 * DAY, Some("certificate gateway has expired on 2027-01-25 00:00:00 UTC")),
            (9_999 * DAY, Some("certificate gateway has expired on 2027-01-25 00:00:00 UTC")),
        ] {
            assert_eq!(validity.problem(at(new_year + second)).as_deref(), expected, "{second}");
        }
    }

    #[test]
    fn a_certificate_for_a_short_time_ends_soon_in_its_last_fifth() {
        let validity = file(&[pem("sidecar", 1, 2)]).chain_validity().unwrap().unwrap();
        for (left, expected) in [
            (DAY / 5, ValidityState::Valid),
            (DAY / 5 - 1, ValidityState::EndsSoon),
            (0, ValidityState::Expired),
        ] {
            assert_eq!(validity.state(at(validity.ends.as_second() - left)), expected, "{left}");
        }
    }

    #[test]
    fn a_chain_ends_with_its_first_certificate_and_authorities_with_their_last() {
        let file = file(&[pem("b", 1, 20), pem("a", 1, 10), pem("nameless", 1, 30)]);
        assert_eq!(file.chain_validity().unwrap().unwrap().name, "a");
        assert_eq!(file.authorities_validity().unwrap().unwrap().name, "nameless.test");
    }

    /// `status` says so.
    #[test]
    fn the_end_of_an_authority_does_not_matter_to_the_gateway() {
        let (authority_key, key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let mut authority = CertificateParams::default();
        authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        authority.not_after = rcgen::date_time_ymd(2027, 1, 10);
        let mut leaf = CertificateParams::new(vec!["zones.test".to_owned()]).unwrap();
        leaf.not_after = rcgen::date_time_ymd(2027, 1, 20);
        let certificate = authority.self_signed(&authority_key).unwrap();
        let issuer = rcgen::Issuer::new(authority, authority_key);
        let leaf = leaf.signed_by(&key, &issuer).unwrap();
        let store = file(&[certificate.pem()]).authorities().unwrap();
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(store), ring::default_provider().into())
                .build()
                .unwrap();
        let is_accepted = |day: &str| {
            let time: Timestamp = format!("{day}T00:00:00Z").parse().unwrap();
            let time = UnixTime::since_unix_epoch(Duration::from_secs(time.as_second().try_into().unwrap()));
            verifier.verify_server_cert(leaf.der(), &[], &"zones.test".try_into().unwrap(), &[], time).is_ok()
        };
        assert_eq!(["2027-01-09", "2027-01-15", "2027-01-21"].map(is_accepted), [true, true, false]);
    }

    #[test]
    fn what_is_no_certificate_has_no_validity() {
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
        assert_eq!(file(&[garbage]).chain_validity(), Ok(None));
        assert!(file(&[]).chain_validity().is_err());
    }
}
