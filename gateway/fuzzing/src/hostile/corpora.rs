//! The corpora of cargo-fuzz, changed: for the targets that have no generated input of their own.

use std::{fs, path::Path};

use proptest::test_runner::{Config, TestRunner};

use super::changed;
use crate::{TARGETS, Target};

/// What has a meaning in JSON, YAML, protobuf, PEM, HTTP or a quantity.
const PIECES: &[&[u8]] = &[
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\n",
    b"\n\n",
    b" ",
    b"\t",
    b"\r",
    b"- ",
    b": ",
    b"#",
    b"&a ",
    b"*a",
    b"!!str ",
    b"|\n",
    b"? ",
    b"'",
    b"---\n",
    b"<<: ",
    b"~",
    b"null",
    b"true",
    b"0",
    b"-1",
    b"1e999",
    b"1e-30",
    b"0.5",
    b".nan",
    b"Ki",
    b"m",
    b"E",
    b"%",
    b"%0a",
    b"%ff",
    b"\0",
    b"\x7f",
    b"\xff",
    b"\xc3\xa9",
    b"\xe2\x80\xa8",
    b"\xef\xbb\xbf",
    b"\\u0000",
    b"\\ud800",
    b"\x08\x03",
    b"\x0a\x00",
    b"\x80",
    b"\xff\xff\xff\xff\x0f",
    b"grpc-status: ",
    b"host: ",
    b"-----BEGIN CERTIFICATE-----\n",
    b"/",
    b"?",
    b"@",
];

fn files(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().map(|file| fs::read(file).unwrap()).collect()
}

fn holds(Target { name, check }: Target) {
    let result = TestRunner::new(Config { failure_persistence: None, ..Config::default() }).run(
        &changed(files(name), PIECES),
        |bytes| {
            check(&bytes);
            Ok(())
        },
    );
    result.unwrap_or_else(|error| panic!("{name}: {error}"));
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                holds(*TARGETS.iter().find(|target| target.name == stringify!($name)).unwrap());
            }
        )*
    };
}

tests! {
    grpc_status handshake configuration scheduler_configuration setting quantity pod node object_file watch
    admin_request pem filter_answer score_answer preempt_answer bind_answer filter_call prioritize_call
    preempt_call bind_call
}
