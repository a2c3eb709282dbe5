//! What a program that was built without a feature says when it is to use it.

use std::net::Ipv4Addr;

use extender_policy_sdk::{Bound, Info, Options, Policy, ServeError, Telemetry, TlsFiles, Verb};

struct AcceptAll;

impl Policy for AcceptAll {
    fn info(&self) -> Info {
        Info::new("accept-all", "1").filters(Verb::per_node())
    }
}

async fn refused(options: Options) -> ServeError {
    Bound::new(AcceptAll, options).await.err().unwrap()
}

#[tokio::test]
async fn certificates_are_not_ignored() {
    let tls = TlsFiles { cert: "tls.crt".into(), key: "tls.key".into(), client_ca: Some("ca.crt".into()) };
    let address = (Ipv4Addr::UNSPECIFIED, 0).into();
    let error = refused(Options { address, tls: Some(tls), ..Options::default() }).await;
    assert!(
        matches!(error, ServeError::Tls(_)) && error.to_string().contains("the feature `tls`"),
        "{error}"
    );
}

#[tokio::test]
async fn a_collector_that_the_program_names_is_not_ignored() {
    let telemetry = Telemetry::variables([("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")]);
    let error = refused(Options { telemetry, ..Options::default() }).await;
    assert!(
        matches!(error, ServeError::Telemetry(_)) && error.to_string().contains("the feature `otlp`"),
        "{error}"
    );
}
