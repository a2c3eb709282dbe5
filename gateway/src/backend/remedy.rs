//! What an operator can do about a backend that cannot be used.

/// The remedy for the cause that keeps a backend from being connected, by what its text contains.
pub fn of_failure(failure: &str) -> &'static str {
    const REMEDIES: [(&str, &str); 7] = [
        ("INVALID_ARGUMENT", "correct its args: its message says what is wrong with them"),
        ("UNIMPLEMENTED", "correct its url: another service listens there"),
        ("InvalidContentType", "it speaks no TLS: use an http url, or let it serve TLS"),
        ("UnknownIssuer", "correct its tls.caFile: it does not contain the CA of its certificate"),
        ("not valid for name", "set its tls.serverName, or use a certificate with the name in its url"),
        ("xpired", "renew the certificate, and check both machines' clocks"),
        ("lookup", "correct the host of its url, or check that DNS works where the gateway runs"),
    ];
    let found = REMEDIES.iter().find(|(cause, _)| failure.contains(cause));
    found.map_or("start it, or correct its url or tls", |(_, remedy)| remedy)
}
