//! What an operator can do about a backend that cannot be used.

use super::handshake::FAILED;

const ANOTHER_SERVICE: &str = "correct its url: another service listens there";
const ANOTHER_SERVICE_OR_VERSION: &str = "correct its url: another service listens there, or one that speaks no version of the policy API of this gateway";
const OTHER_IDENTITY: &str = "set its tls.certFile and tls.keyFile to a certificate that it accepts";

/// Remedies by what a text contains that the gateway wrote, the first that fits.
const REMEDIES: [(&str, &str); 14] = [
    ("not a gRPC response", ANOTHER_SERVICE),
    ("answers in HTTP/1", ANOTHER_SERVICE),
    ("TLS alert", "it serves TLS: use an https url, and set its tls.caFile"),
    ("InvalidContentType", "it speaks no TLS: use an http url, or let it serve TLS"),
    ("UnknownIssuer", "correct its tls.caFile: it does not contain the CA of its certificate"),
    ("not valid for name", "set its tls.serverName, or use a certificate with the name in its url"),
    ("not valid before", "check both machines' clocks, and when the backend's certificate begins"),
    ("alert: CertificateExpired", "renew its tls.certFile, and check both machines' clocks"),
    ("xpired", "renew the backend's certificate, and check both machines' clocks"),
    ("alert: CertificateRequired", OTHER_IDENTITY),
    ("alert: UnknownCA", OTHER_IDENTITY),
    ("no answer within", "it accepts connections and does not answer: see its log, or restart it"),
    ("lookup", "correct the host of its url, or check that DNS works where the gateway runs"),
    // As servers end it that expect TLS and send no alert, and those that crash.
    ("connection was", "see its log; if it serves TLS, use an https url, and otherwise check its url"),
];

/// The remedy for the cause that keeps a backend from being connected, by what its text contains.
pub fn of_failure(failure: &str) -> &'static str {
    // What follows the code is the backend's own text, in which any word may occur.
    if let Some(code) = grpc_code(failure) {
        return match code {
            "INVALID_ARGUMENT" => "correct its args: its message says what is wrong with them",
            "UNIMPLEMENTED" => ANOTHER_SERVICE_OR_VERSION,
            _ => "see its log",
        };
    }
    let found = REMEDIES.iter().find(|(cause, _)| failure.contains(cause));
    found.map_or("start it, or correct its url or tls", |(_, remedy)| remedy)
}

/// The gRPC status with which the backend answered the handshake, as in `handshake failed: UNAVAILABLE: not now`.
fn grpc_code(failure: &str) -> Option<&str> {
    let status = failure.strip_prefix(FAILED)?.strip_prefix(": ")?;
    let code = status.split(':').next()?;
    let is_code = code.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    (is_code && !code.is_empty()).then_some(code)
}
