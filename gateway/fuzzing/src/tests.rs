//! The corpora of cargo-fuzz as ordinary tests.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use super::{TARGETS, Target};

/// The target of the SDK for Rust, whose corpus the SDK's own tests read.
const OF_THE_SDK: &str = "sync_nodes";

fn in_fuzz(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz").join(folder)
}

/// The names in a folder, without their endings.
fn names(folder: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(in_fuzz(folder)).unwrap_or_else(|error| panic!("fuzz/{folder}: {error}"));
    let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
    entries.map(|entry| name(entry.unwrap().path())).collect()
}

#[test]
fn each_target_has_a_program_and_a_corpus() {
    let mut expected: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    expected.insert(OF_THE_SDK.to_owned());
    assert_eq!(names("fuzz_targets"), expected);
    assert_eq!(names("corpus"), expected);
}

#[test]
fn every_corpus_holds() {
    for Target { name, check } in TARGETS {
        let files =
            fs::read_dir(in_fuzz("corpus").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        assert!(!files.is_empty(), "fuzz/corpus/{name} has no files");
        for file in files {
            // Shown only if it fails.
            println!("{}", file.display());
            check(&fs::read(&file).unwrap());
        }
    }
}
