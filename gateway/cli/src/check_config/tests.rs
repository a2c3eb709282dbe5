//! Valid files, and the errors of invalid ones.

use std::fs;

use rcgen::{CertifiedKey, KeyPair};
use tempfile::TempDir;

use super::*;

/// A folder with a certificate `tls.crt`, which is its own authority, and its key `tls.key`; another key
/// `other.key`, a node file, a kubeconfig, and files of other kinds.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let CertifiedKey { cert, signing_key } =
        rcgen::generate_simple_self_signed(["gateway.test".to_owned()]).unwrap();
    let node = r#"{"kind": "Node", "metadata": {"name": "a"}}"#;
    let kubeconfig = |rest: &str| {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:1'{rest}}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: c}}}}]\nusers: [{{name: c, user: {{}}}}]\n"
        )
    };
    for (name, content) in [
        ("tls.crt", cert.pem()),
        ("tls.key", signing_key.serialize_pem()),
        ("other.key", KeyPair::generate().unwrap().serialize_pem()),
        ("nodes.json", node.to_owned()),
        ("pods.json", node.replace("Node", "Pod")),
        ("kubeconfig", kubeconfig("")),
        ("without-ca", kubeconfig(", certificate-authority: gone.crt")),
        ("empty", String::new()),
    ] {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

/// The findings for these lines and this `tls` of a backend, as `PATH: FILE: …`, without the folder.
fn found(folder: &Path, lines: &str, tls: &str) -> Vec<String> {
    let yaml = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n{lines}\n\
         backends: [{{name: a, url: 'https://a:1', tls: {{{tls}}}, filter: {{}}}}]\n"
    );
    let config = Config::parse(&yaml, folder).unwrap_or_else(|errors| panic!("{errors}\n{yaml}"));
    let said = |Finding { path, wrong, remedy }| format!("{path}: {wrong}; {remedy}");
    let without = format!("{}/", folder.display());
    findings(&config).into_iter().map(|finding| said(finding).replace(&without, "")).collect()
}

#[test]
fn files_that_can_be_used_are_passed_over() {
    let folder = folder();
    let lines = "extender: {tls: {certFile: tls.crt, keyFile: tls.key, clientCAFile: tls.crt}}\n\
                 cluster: {kubeconfig: kubeconfig}\nnodes: {source: File, file: nodes.json}";
    let tls = "caFile: tls.crt, certFile: tls.crt, keyFile: tls.key";
    assert_eq!(found(folder.path(), lines, tls), [""; 0]);
}

/// Checks the error of one unusable file: its field, the file, the problem and the remedy.
fn check(cases: &[(String, &str, &str)]) {
    let folder = folder();
    for (lines, tls, expected) in cases {
        let found = found(folder.path(), lines, tls);
        assert!(found.len() == 1 && found[0].starts_with(expected), "{expected}\n{found:#?}");
        assert_eq!(found[0].matches("; ").count(), 1, "{found:?}");
    }
}

#[test]
fn certificates_keys_and_authorities() {
    let server = |fields: &str| format!("extender: {{tls: {{{fields}}}}}");
    let right = "caFile: tls.crt";
    let cases = [
        (
            server("certFile: gone, keyFile: tls.key"),
            right,
            "extender.tls.certFile: gone: cannot be read: No such file or directory (os error 2); expected a PEM file that",
        ),
        (
            server("certFile: empty, keyFile: tls.key"),
            right,
            "extender.tls.certFile: empty: has no certificate; expected a PEM block -----BEGIN CERTIFICATE-----",
        ),
        (
            server("certFile: tls.crt, keyFile: tls.crt"),
            right,
            "extender.tls.keyFile: tls.crt: has no key; expected a PEM block -----BEGIN PRIVATE KEY-----",
        ),
        (
            server("certFile: tls.crt, keyFile: other.key"),
            right,
            "extender.tls.keyFile: other.key: does not match tls.crt: keys may not be consistent: KeyMismatch; expected the key of its first certificate",
        ),
        (
            server("certFile: tls.crt, keyFile: tls.key, clientCAFile: ''").replace("''", "."),
            right,
            "extender.tls.clientCAFile: .: cannot be read: is a directory",
        ),
        (String::new(), "caFile: gone", "backends[0].tls.caFile: gone: cannot be read: No such file"),
        (
            String::new(),
            "caFile: tls.crt, certFile: tls.crt, keyFile: other.key",
            "backends[0].tls.keyFile: other.key: does not match tls.crt: ",
        ),
    ];
    check(&cases);
}

#[test]
fn kubeconfigs_and_files_of_nodes() {
    let right = "caFile: tls.crt";
    let cases = [
        (
            "cluster: {kubeconfig: gone}".to_owned(),
            right,
            "cluster.kubeconfig: gone: failed to read kubeconfig from '\"gone\"': No such file or directory \
             (os error 2); expected a kubeconfig with which `kubectl --kubeconfig FILE get nodes` works",
        ),
        ("cluster: {kubeconfig: nodes.json}".to_owned(), right, "cluster.kubeconfig: nodes.json: "),
        ("cluster: {kubeconfig: without-ca}".to_owned(), right, "cluster.kubeconfig: without-ca: "),
        (
            "nodes: {source: File, file: gone}".to_owned(),
            right,
            "nodes.file: gone: cannot be read: No such file or directory (os error 2); expected a file as written by `kubectl get",
        ),
        (
            "nodes: {source: File, file: pods.json}".to_owned(),
            right,
            "nodes.file: pods.json: object 1 is of kind \"Pod\", not Node",
        ),
    ];
    check(&cases);
}

#[test]
fn all_files_are_said_at_once() {
    let folder = folder();
    let lines = "extender: {tls: {certFile: a, keyFile: b, clientCAFile: c}}\n\
                 cluster: {kubeconfig: d}\nnodes: {source: File, file: e}";
    let found = found(folder.path(), lines, "caFile: f, certFile: g, keyFile: h");
    let fields: Vec<&str> = found.iter().filter_map(|said| said.split(':').next()).collect();
    let expected = [
        "extender.tls.certFile",
        "extender.tls.keyFile",
        "extender.tls.clientCAFile",
        "cluster.kubeconfig",
        "nodes.file",
        "backends[0].tls.caFile",
        "backends[0].tls.certFile",
        "backends[0].tls.keyFile",
    ];
    assert_eq!(fields, expected);
}

/// Writes `tls.crt` and `tls.key`, valid until the midnight before this many days from now.
fn write_certificate(folder: &Path, days: i64) {
    let key = KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["gateway.test".to_owned()]).unwrap();
    params.distinguished_name.push(rcgen::DnType::CommonName, "gateway");
    let midnight = |days: i64| {
        let date =
            (Timestamp::now() + jiff::SignedDuration::from_hours(24 * days)).strftime("%Y-%m-%d").to_string();
        let parts: Vec<i32> = date.split('-').map(|part| part.parse().unwrap()).collect();
        rcgen::date_time_ymd(parts[0], parts[1].try_into().unwrap(), parts[2].try_into().unwrap())
    };
    (params.not_before, params.not_after) = (midnight(-90), midnight(days));
    fs::write(folder.join("tls.crt"), params.self_signed(&key).unwrap().pem()).unwrap();
    fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
}

#[test]
fn certificates_that_have_expired_are_mistakes_and_those_that_end_soon_are_warnings() {
    let folder = folder();
    let lines = "extender: {tls: {certFile: tls.crt, keyFile: tls.key}}";
    let config = |lines: &str| {
        let yaml = format!(
            "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n{lines}\n\
             backends: [{{name: a, url: 'http://a:1', filter: {{}}}}]\n"
        );
        Config::parse(&yaml, folder.path()).unwrap()
    };
    for (days, mistakes, warnings) in [(-2, 1, 0), (13, 0, 1), (15, 0, 0)] {
        write_certificate(folder.path(), days);
        let config = config(lines);
        assert_eq!(
            (findings(&config).len(), ending_certificates(&config).len()),
            (mistakes, warnings),
            "{days}"
        );
    }
    write_certificate(folder.path(), -2);
    let found = found(folder.path(), lines, "caFile: other.crt");
    assert!(found[0].starts_with("backends[0].tls.caFile: other.crt: cannot be read"), "{found:?}");
    let expired = "extender.tls.certFile: tls.crt: certificate gateway has expired on ";
    assert!(
        found[1].starts_with(expired) && found[1].ends_with("; expected certificates that are valid now"),
        "{found:?}"
    );
    fs::copy(folder.path().join("tls.crt"), folder.path().join("old.crt")).unwrap();
    write_certificate(folder.path(), 15);
    let authority = config("extender: {tls: {certFile: tls.crt, keyFile: tls.key, clientCAFile: old.crt}}");
    assert_eq!(findings(&authority), [], "the gateway accepts certificates that it has signed");
    let [warning] = &ending_certificates(&authority)[..] else { panic!("it has expired") };
    assert!(warning.contains("clientCAFile: ") && warning.contains(" has expired on "), "{warning}");
    write_certificate(folder.path(), 3);
    let [warning] = &ending_certificates(&config(lines))[..] else { panic!("it ends soon") };
    assert!(
        warning.contains("tls.crt: certificate gateway expires in 2 d, on ")
            && warning.ends_with("; renew it"),
        "{warning}"
    );
}
