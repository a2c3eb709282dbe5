//! The deliberate faults still fit the sources. `faults.sh` puts them in and sees each of them found.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn patches() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("faults");
    let files =
        fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it can be read"));
    let mut files: Vec<_> = files.map(|entry| entry.path()).collect();
    files.sort();
    files
}

#[test]
fn every_fault_says_what_it_breaks_and_can_be_put_in() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let patches = patches();
    assert!(patches.len() >= 20, "{} faults", patches.len());
    for patch in patches {
        let text = fs::read_to_string(&patch).expect("it can be read");
        let sentence = text.lines().next().unwrap_or_default();
        assert!(
            sentence.ends_with('.') && text.contains("\ndiff --git "),
            "{}: {sentence:?}",
            patch.display()
        );
        let mut check = Command::new("git");
        check.current_dir(&root).args(["apply", "--check", "--verbose"]).arg(&patch);
        let check = check.output().expect("git is there");
        let said = String::from_utf8_lossy(&check.stderr);
        // Where git would pass files over, it succeeds all the same.
        assert!(check.status.success() && !said.contains("Skipped"), "{}: {said}", patch.display());
    }
}
