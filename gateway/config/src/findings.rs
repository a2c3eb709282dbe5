//! Mistakes outside the text: in the files and addresses that its values name.

use std::path::Path;

use crate::content::Content;
use crate::cursor::{Cursor, Mistakes};
use crate::mistake::{ConfigErrors, Mistake};
use crate::yaml;

/// A problem with the file or address that a value names, such as a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The value, such as `backends[1].tls.caFile`.
    pub path: String,
    /// What is wrong, as the predicate of a sentence about the path.
    pub wrong: String,
    /// How to correct it.
    pub remedy: String,
}

impl ConfigErrors {
    /// The findings of a configuration that was read from this file, each with its line. `None` without any.
    pub fn of_findings(file: &Path, content: &Content, findings: Vec<Finding>) -> Option<Self> {
        // The text was read and parsed before.
        let document = content.text().ok().and_then(|text| yaml::parse(text).ok());
        let unused = Mistakes::default();
        let root = document.as_ref().map(|document| Cursor::root(document, &unused));
        let mistake = |Finding { path, wrong, remedy }| {
            let steps: Vec<_> = path.split(['.', '[']).map(|step| step.trim_end_matches(']')).collect();
            let place = root.as_ref().and_then(|root| root.descend(&steps)).map(|cursor| cursor.place());
            Mistake::of_value(place, path, wrong, remedy)
        };
        let mistakes: Vec<Mistake> = findings.into_iter().map(mistake).collect();
        (!mistakes.is_empty()).then(|| Self::sorted(mistakes).in_file(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_reported_with_their_lines_in_order() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a:\n  b: 1\nc:\n- d: {e: 2}\n-\n  d:\n    e: 3\n").unwrap();
        let content = Content::read(file.path()).unwrap();
        let finding =
            |path: &str| Finding { path: path.to_owned(), wrong: "no".to_owned(), remedy: "yes".to_owned() };
        let found = ["c[1].d.e", "a.b", "a.x", "c[2]"].map(finding).into();
        let errors = ConfigErrors::of_findings(Path::new("f"), &content, found).unwrap().to_string();
        assert_eq!(
            errors,
            "f: a.x: no; yes\nf: c[2]: no; yes\nf line 2: a.b: no; yes\nf line 7: c[1].d.e: no; yes"
        );
        assert_eq!(ConfigErrors::of_findings(Path::new("f"), &content, Vec::new()), None);
    }
}
