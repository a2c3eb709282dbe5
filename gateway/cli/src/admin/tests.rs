//! Errors about admin addresses that respond with something else, or not at all.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use clap::{Args as _, FromArgMatches as _};

use super::*;

/// The error about a server that sends these bytes for every request and disconnects; with `None` it never
/// responds.
async fn said_of(answer: Option<&'static str>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = admin_url(&format!("http://{}", listener.local_addr().unwrap())).unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        assert!(stream.read(&mut [0; 1024]).await.unwrap() > 0);
        match answer {
            Some(answer) => stream.write_all(answer.as_bytes()).await.unwrap(),
            None => std::future::pending().await,
        }
    });
    let options = GatewayOptions {
        urls: vec![url],
        gateway_namespace: None,
        gateway_selector: String::new(),
        admin_port: 0,
        access: AccessOptions::default(),
        cluster: ClusterOptions::default(),
    };
    let gateways = options.find(&Err(String::new())).await;
    let Gathered { answers, away } = gateways.query::<Status>("/debug/status").await;
    assert!(answers.is_empty() && away.len() == 1);
    away[0].why.clone()
}

#[tokio::test]
async fn a_token_is_not_sent_to_another_machine_in_the_clear() {
    // An address of documentation, which nobody has.
    let (url, address) = (admin_url("http://192.0.2.1:9403").unwrap(), "192.0.2.1:9403".parse().unwrap());
    let access =
        access::Access { authorization: Some("Bearer t".parse().unwrap()), ..access::Access::default() };
    let refused = request::direct(&url, address, &access, AdminQuery::get("/debug/status")).await;
    assert!(matches!(refused, Err(QueryError::TokenInTheClear(_))), "{refused:?}");
}

#[test]
fn options_for_tls_are_used_or_an_error() {
    let read = |arguments: &[&str], is_https| {
        let command = AccessOptions::augment_args(clap::Command::new("gateways").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).unwrap();
        let options = AccessOptions::from_arg_matches(&matches).unwrap();
        options.read(is_https).map_err(|error| error.to_string())
    };
    let identity = ["--tls-cert", "/missing/cert", "--tls-key", "/missing/key"];
    for option in [&identity[..], &["--tls-ca", "/missing/ca"], &["--tls-server-name", "gateway"]] {
        let error = read(option, false).unwrap_err();
        assert_eq!(error, format!("{} is of no use: no URL is https", option[0]));
    }
    let error = read(&["--tls-ca", "/missing/ca"], true).unwrap_err();
    assert!(error.starts_with("--tls-ca: ") && error.contains("/missing/ca"), "{error}");
    assert!(read(&[], false).unwrap().tls.is_none());
}

#[test]
fn usual_gateways_are_for_where_none_are_named() {
    let url = |text: &str| admin_url(text).unwrap();
    let asked = |urls: &[&str], usual: &str, namespace: Option<&str>| {
        let options = GatewayOptions {
            urls: urls.iter().map(|text| url(text)).collect(),
            gateway_namespace: namespace.map(str::to_owned),
            gateway_selector: String::new(),
            admin_port: 0,
            access: AccessOptions::default(),
            cluster: ClusterOptions::default(),
        };
        options.urls(usual).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let (one, two) = ("http://one:9403", "http://two:9403");
    assert_eq!(asked(&[], "", None), [url(DEFAULT_URL).to_string()]);
    assert_eq!(asked(&[], &format!("{one},{two}"), None), [url(one).to_string(), url(two).to_string()]);
    assert_eq!(asked(&[one], two, None), [url(one).to_string()]);
    assert_eq!(asked(&[], two, Some("gw")), [""; 0], "another cluster's");
    assert_eq!(asked(&[one], two, Some("gw")), [url(one).to_string()], "both were named");
}

#[tokio::test]
async fn answers_that_are_none() {
    for (answer, said) in [
        (
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 25\r\n\r\n{\"error\": \"no such verb\"}",
            "HTTP 400 \"no such verb\"",
        ),
        (
            "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nhm?\n",
            "HTTP 404 \"hm?\"; is it the admin address of an extender-gateway? The metrics and the extender have others",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            "cannot parse the response (missing field `apiVersion` at line 1 column 2); is it an extender-gateway of this version?",
        ),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\n{",
            "the connection broke (error reading a body from connection: end of file before message length reached); see the gateway's log",
        ),
        ("SSH-2.0\r\n", "the connection broke (invalid HTTP version parsed); see the gateway's log"),
    ] {
        assert_eq!(said_of(Some(answer)).await, said);
    }
}

/// The paused clock advances as soon as no other work is left.
#[tokio::test(start_paused = true)]
async fn a_gateway_that_says_nothing_is_not_waited_for_for_ever() {
    let said = said_of(None).await;
    assert!(said.starts_with("no answer within 5 s; check its log and admin.address. "), "{said}");
}
