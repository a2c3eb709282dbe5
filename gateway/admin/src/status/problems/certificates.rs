//! Problems of certificate files: their certificates end, or cannot be used.

use extender_gateway_api::{Problem, Severity};
use extender_gateway_settings::Config;
use extender_gateway_tls::{
    CertificateFile, CertificateRole, Certificates, Unusable, Validity, ValidityState,
};
use jiff::Timestamp;

use super::{backends::worst, problem};

/// The problems of all files.
pub(super) fn of(certificates: &Certificates, config: &Config) -> Vec<Problem> {
    let ending =
        certificates.all().into_iter().filter_map(|(file, validity)| certificate(file, &validity, config));
    ending
        .chain(certificates.unusable().into_iter().map(|(file, why)| unusable_certificate(file, why)))
        .collect()
}

/// A file whose certificates are not valid, or not for long.
fn certificate(file: CertificateFile, validity: &Validity, config: &Config) -> Option<Problem> {
    let now = Timestamp::now();
    let what = format!("{}: {}", file.path.display(), validity.problem(now)?);
    let ends_soon = validity.state(now) == ValidityState::EndsSoon;
    let (worst, effect) = match (&file.backend, file.role) {
        (None, CertificateRole::Chain) if !file.field.starts_with("extender.") => {
            (Severity::Warning, "callers of this address reject the gateway")
        }
        (None, CertificateRole::Chain) => (
            Severity::Error,
            "kube-scheduler rejects the gateway from its next connection on, within 10 minutes; then no pod is scheduled",
        ),
        (Some(name), CertificateRole::Chain) => {
            let backend = config.backends.iter().find(|backend| backend.name == *name);
            let worst = backend.map_or(Severity::Warning, worst);
            (worst, "the backend rejects new connections of the gateway")
        }
        // rustls ignores when the certificates of authorities end.
        (_, CertificateRole::Authorities) => {
            (Severity::Warning, "most programs reject certificates that it has signed; the gateway does not")
        }
    };
    let severity = if ends_soon { Severity::Warning } else { worst };
    let impact = if ends_soon { format!("none yet; then {effect}") } else { effect.to_owned() };
    let about = match file.backend {
        Some(backend) => format!("backend {backend}, {}", file.field),
        None => file.field,
    };
    let remedy = "renew it; the changed file is read without a restart";
    Some(problem(severity, "certificate-expires", &about, what, remedy).with_impact(impact))
}

/// A file that was replaced by one without usable certificates.
fn unusable_certificate(file: CertificateFile, unusable: Unusable) -> Problem {
    let path = file.path.display();
    let (severity, what) = match unusable {
        Unusable::Unreadable(why) => (Severity::Warning, format!("{path}: {why}")),
        Unusable::Expired(why) => (Severity::Error, format!("{path} was refused: {why}")),
    };
    let (about, impact) = match file.backend {
        Some(backend) => {
            (format!("backend {backend}, {}", file.field), "new connections to the backend fail")
        }
        None => (
            file.field,
            "the previous certificates stay in use; do not restart: the file would be used, or the gateway not start with it",
        ),
    };
    let remedy = "replace it by a file with valid PEM certificates; it is read without a restart";
    problem(severity, "certificate-unusable", &about, what, remedy).with_impact(impact)
}
