//! `check-config --ask`: what backends say about a configuration before it is used.

use std::{fs, net::TcpListener, process::Stdio};

use bytes::Bytes;
use extender_policy_api::v1beta1::{GetInfoRequest, GetInfoResponse};
use prost::Message;
use tokio::process::Command;

use crate::support::{
    backend::{Act, Scripted, info},
    reading,
};

/// A backend that accepts only these args.
async fn particular(right: &'static str, info: GetInfoResponse) -> Scripted {
    let script = move |verb: &str, message: Bytes| match verb {
        "GetInfo" if GetInfoRequest::decode(message).unwrap().args != right.as_bytes() => {
            Act::Status(3, "args.rack: no such rack")
        }
        "GetInfo" => Act::Message(info.encode_to_vec()),
        other => panic!("{other} is called"),
    };
    Scripted::start_bare(script, None).await
}

/// The exit code, standard output, and standard error without the folder of the file.
async fn asked(backends: &str) -> (Option<i32>, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    let text = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         exempt: {{namespaces: [policies]}}\nnodes: {{source: NamesOnly}}\nbackends:\n{backends}"
    );
    fs::write(&file, text).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_extender-gateway"));
    command.args(["check-config", "--ask", "--config"]).arg(&file).stdin(Stdio::null());
    let output = command.output().await.unwrap();
    let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    (output.status.code(), out, said.replace(&format!("{}/", folder.path().display()), ""))
}

fn configured(name: &str, address: impl std::fmt::Display, rest: &str) -> String {
    format!("- {{name: {name}, url: 'http://{address}', {rest}}}\n")
}

#[tokio::test]
async fn backends_that_accept_their_settings_are_listed() {
    let named =
        GetInfoResponse { name: "rack-drain".into(), version: "1.2\u{1b}".into(), ..info(reading::names()) };
    let backend = particular(r#"{"rack":"r1"}"#, named).await;
    let right = configured("racks", backend.address, "filter: {}, score: {}, args: {rack: r1}");
    // It is not called, and so not asked.
    let disabled = configured("gone", "127.0.0.1:1", "filter: {}, mode: Disabled");
    let half = configured("half", backend.address, "filter: {}, args: {rack: r1}");
    let (code, out, said) = asked(&format!("{right}{disabled}{half}")).await;
    let (answers, rest) = said.split_once('\n').unwrap();
    let (warning, unused) = rest.trim_end().rsplit_once('\n').unwrap();
    let expected = "serves filter; it also serves score, which the configuration does not ask for";
    assert!(unused.starts_with("backends[2]: half answers: ") && unused.ends_with(expected), "{unused}");
    assert_eq!(answers, "backends[0]: racks answers: rack-drain 1.2\\u{1b} serves filter, score");
    let unbounded =
        "warning: backends[0].score: its scores have no bound, are not normalized, and count 10 times";
    assert!(warning.starts_with(unbounded), "{warning}");
    assert!(out.starts_with("# ") && out.contains("- name: racks\n"), "{out}");
    assert_eq!(code, Some(0));
}

#[tokio::test]
async fn everything_that_is_wrong_is_said_at_once_with_its_place_and_remedy() {
    let particular = particular(r#"{"rack":"r1"}"#, info(reading::facts())).await;
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let backends = [
        configured("args", particular.address, "filter: {}, args: {rack: r9}"),
        configured("away", closed, "filter: {}"),
        configured("verbs", particular.address, "filter: {}, preempt: {}, args: {rack: r1}"),
    ];
    let (code, out, said) = asked(&backends.concat()).await;
    let lines: Vec<_> = said.lines().collect();
    let expected = [
        "gateway.yaml line 6: backends[0].args: handshake failed: INVALID_ARGUMENT: args.rack: no such rack; correct its args: its \
         message says what is wrong with them"
            .to_owned(),
        format!(
            "gateway.yaml line 7: backends[1].url: cannot connect to {closed}: connection refused; start it, or correct its url or tls"
        ),
        "gateway.yaml line 8: backends[2].filter: the backend needs facts about nodes, which nodes.source: NamesOnly \
         does not provide; set Watch, Request or File"
            .to_owned(),
        "gateway.yaml line 8: backends[2].preempt: the backend does not serve preempt; remove preempt from its configuration"
            .to_owned(),
        "4 mistakes".to_owned(),
    ];
    assert_eq!(lines.len(), expected.len(), "{said}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.starts_with(expected.as_str()), "{line}\n{expected}");
    }
    assert_eq!((code, out.as_str()), (Some(3), ""));
}
