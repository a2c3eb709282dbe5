//! The files of `label-rules` are checked without serving.

use std::{io::Write as _, process::Command};

use crate::PROGRAM;

const RACKS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/racks-drained.yaml");

#[test]
fn files_are_checked_without_serving() {
    let checked = |files: &[&str]| {
        let output = Command::new(PROGRAM).args(["label-rules", "--check"]).args(files).output().unwrap();
        let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.code(), out, said)
    };
    let summary = format!(
        "{RACKS}: valid\n  require topology.acme.io/rack notin (rack-2, rack-5); otherwise rejected: rack is being drained \
         (rule racks under maintenance)\n  reads of nodes: label topology.acme.io/rack\n  reads of pods: nothing\n"
    );
    assert_eq!(checked(&[RACKS]), (Some(0), summary.clone(), String::new()));
    let mut wrong = tempfile::NamedTempFile::new().unwrap();
    wrong.write_all(b"rules:\n- {prefer: [], score: 0}\n- {}\n").unwrap();
    let path = wrong.path().to_str().unwrap();
    let (code, out, said) = checked(&[path, RACKS, "no/such/file.yaml"]);
    assert_eq!((code, out), (Some(2), summary));
    let lines: Vec<_> = said.lines().map(|line| line.replace(path, "wrong")).collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(lines[0].starts_with("wrong line 2: rules[0].prefer: is an empty list; expected "), "{said}");
    assert!(lines[3].starts_with("no/such/file.yaml: cannot be read: "), "{said}");
    assert_eq!(checked(&[RACKS, "--rules", RACKS]).0, Some(2));
}
