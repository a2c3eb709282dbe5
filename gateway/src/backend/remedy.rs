//! What an operator can do about a backend that cannot be used.

/// The remedy for the cause that keeps a backend from being connected, by what its text contains.
pub fn of_failure(failure: &str) -> &'static str {
    const ANOTHER_SERVICE: &str = "correct its url: another service listens there";
    const OTHER_IDENTITY: &str = "set its tls.certFile and tls.keyFile to a certificate that it accepts";
    const REMEDIES: [(&str, &str); 14] = [
        ("INVALID_ARGUMENT", "correct its args: its message says what is wrong with them"),
        ("UNIMPLEMENTED", ANOTHER_SERVICE),
        ("not a gRPC response", ANOTHER_SERVICE),
        ("answers in HTTP/1", ANOTHER_SERVICE),
        ("TLS alert", "it serves TLS: use an https url, and set its tls.caFile"),
        ("InvalidContentType", "it speaks no TLS: use an http url, or let it serve TLS"),
        ("UnknownIssuer", "correct its tls.caFile: it does not contain the CA of its certificate"),
        ("not valid for name", "set its tls.serverName, or use a certificate with the name in its url"),
        ("alert: CertificateExpired", "renew its tls.certFile, and check both machines' clocks"),
        ("xpired", "renew the backend's certificate, and check both machines' clocks"),
        ("alert: CertificateRequired", OTHER_IDENTITY),
        ("alert: UnknownCA", OTHER_IDENTITY),
        ("lookup", "correct the host of its url, or check that DNS works where the gateway runs"),
        // As servers end it that expect TLS and send no alert, and those that crash.
        ("connection was", "see its log; if it serves TLS, use an https url, and otherwise check its url"),
    ];
    let found = REMEDIES.iter().find(|(cause, _)| failure.contains(cause));
    found.map_or("start it, or correct its url or tls", |(_, remedy)| remedy)
}
