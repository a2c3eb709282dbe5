//! A backend's name: what reasons, metrics and logs call it.

use std::fmt;

use super::{kubernetes::is_dns_label, mistake::echo};

/// The longest name in bytes: that of an RFC 1123 label.
const LONGEST: usize = 63;

/// An RFC 1123 label: 1 to 63 lower case letters, digits and `-`, beginning and ending with a letter or digit.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BackendName(String);

impl BackendName {
    /// Takes a label. Mirrors `IsDNS1123Label` of `k8s.io/apimachinery`.
    ///
    /// # Errors
    /// What is wrong with the text, as the predicate of a sentence about it.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("has {} characters, more than {LONGEST}", text.len()));
        }
        if !is_dns_label(text) {
            return Err(format!("{} is not a name for a backend", echo(text)));
        }
        Ok(Self(text.to_owned()))
    }

    /// The name itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackendName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_names() {
        for text in ["a", "0", "rack-drain", "a--b", &"a".repeat(63)] {
            assert_eq!(BackendName::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn other_texts_are_not() {
        for text in ["", "-", "-a", "a-", "A", "a.b", "a_b", "a b", "ä", "a\n"] {
            assert_eq!(BackendName::new(text), Err(format!("{text:?} is not a name for a backend")));
        }
        assert_eq!(BackendName::new(&"a".repeat(64)), Err("has 64 characters, more than 63".to_owned()));
    }
}
