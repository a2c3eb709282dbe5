//! `--record`: writes decisions as expectations.

use std::{
    fmt::Write,
    fs,
    path::{Component, Path, PathBuf},
};

use extender_gateway_settings::scalar;

use super::{expectations::reason, outcome::SimulatedCase};

use crate::output::{Failure, write_file};

/// Writes the decisions as expectations.
///
/// # Errors
/// The file cannot be written.
pub(super) fn write(file: &Path, cases: &[SimulatedCase]) -> Result<(), Failure> {
    write_file(file, recorded(file, cases).as_bytes())
}

fn recorded(file: &Path, cases: &[SimulatedCase]) -> String {
    let mut text = "# Written by `extender-gateway try --record`; read with --expect.\nexpect:\n".to_owned();
    for case in cases {
        // Writing to a `String` does not fail.
        let _ = write_case(&mut text, file, case);
    }
    text
}

fn write_case(text: &mut String, file: &Path, case: &SimulatedCase) -> std::fmt::Result {
    writeln!(text, "- pod: {}", scalar(&relative(&case.file, file).display()))?;
    if let Some(error) = case.error() {
        return writeln!(text, "  error: {}", scalar(&error));
    }
    let feasible: Vec<String> = case.feasible().iter().map(scalar).collect();
    writeln!(text, "  feasible: [{}]", feasible.join(", "))?;
    let mut rejected = case.rejected().peekable();
    if rejected.peek().is_some() {
        writeln!(text, "  rejected:")?;
    }
    for node in rejected {
        writeln!(text, "    {}: {}", scalar(&node.name), scalar(&reason(node)))?;
    }
    if let [first] = case.best()[..] {
        writeln!(text, "  first: {}", scalar(&first))?;
    }
    let mut scores = feasible
        .iter()
        .zip(case.feasible())
        .filter_map(|(shown, name)| Some((shown, case.total(&name)?)))
        .peekable();
    if scores.peek().is_some() {
        writeln!(text, "  scores:")?;
    }
    scores.try_for_each(|(name, total)| writeln!(text, "    {name}: {total}"))
}

/// The path of a file as seen from the folder of another one.
fn relative(file: &Path, other: &Path) -> PathBuf {
    let folder = other.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Ok(file), Ok(folder)) = (fs::canonicalize(file), fs::canonicalize(folder)) else {
        return file.to_owned();
    };
    let shared = file.components().zip(folder.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(file.components().skip(shared)).collect()
}
