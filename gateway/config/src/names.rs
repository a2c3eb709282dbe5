//! Names that Kubernetes has rules for: DNS-1123 labels and subdomains, namespaces, label keys and values, extended
//! resources. A name that the apiserver would never accept is a mistake, not a condition that never holds.
//! Errors are predicates of a sentence about the text.

use crate::mistake::echo;

/// The longest name after the slash, label value and namespace, in bytes.
const LONGEST_NAME: usize = 63;
/// The longest part before the slash, in bytes.
const LONGEST_DOMAIN: usize = 253;

/// Describes a valid namespace.
pub const NAMESPACE: &str = "1 to 63 lower case letters, digits and -, with a letter or digit at both ends";
/// Describes a valid label key.
pub const LABEL_KEY: &str = "a label key such as tier or example.com/tier";
/// Describes a valid label value.
pub const LABEL_VALUE: &str =
    "at most 63 letters, digits, -, _ and ., with a letter or digit at both ends, or \"\"";
/// Describes a valid extended resource.
pub const EXTENDED_RESOURCE: &str = "an extended resource such as example.com/gpu";

/// A namespace. Mirrors `IsDNS1123Label` of `k8s.io/apimachinery/pkg/util/validation`.
pub fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) { Ok(text.to_owned()) } else { Err(format!("{} is not a namespace", echo(text))) }
}

/// The key of a label. Mirrors `IsQualifiedName` of the same package.
pub fn label_key(text: &str) -> Result<String, String> {
    if is_qualified_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{} is not a label key", echo(text)))
    }
}

/// The value of a label, which may be empty. Mirrors `IsValidLabelValue` of the same package.
pub fn label_value(text: &str) -> Result<String, String> {
    if is_label_value(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{} is not a label value", echo(text)))
    }
}

/// Whether a label can have this value. Mirrors `IsValidLabelValue`.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// A text that is not empty.
///
/// # Errors
/// It is empty.
pub fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// A resource that an extender may manage. Mirrors `validateExtendedResourceName` of kube-scheduler
/// (`pkg/scheduler/apis/config/validation`).
pub fn extended_resource(text: &str) -> Result<String, String> {
    // As in `IsPrefixedNativeResource`: anywhere in the name, not only at its front.
    if !text.is_empty() && (!text.contains('/') || text.contains("kubernetes.io/")) {
        return Err(format!("{} is a native resource of Kubernetes", echo(text)));
    }
    // A quota counts it as `requests.NAME`, which must be valid as well.
    if text.starts_with("requests.")
        || !is_qualified_name(text)
        || !is_qualified_name(&format!("requests.{text}"))
    {
        return Err(format!("{} is not a resource", echo(text)));
    }
    Ok(text.to_owned())
}

/// Whether a text is `NAME` or `DOMAIN/NAME`, as the keys of labels and annotations are. Mirrors `IsQualifiedName`.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((domain, name)) => is_dns_subdomain(domain) && is_name(name),
        None => is_name(text),
    }
}

/// `([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]`
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= LONGEST_NAME
        && text.bytes().all(inner)
        && has_ends(text, |byte| byte.is_ascii_alphanumeric())
}

/// Whether a text is a DNS-1123 subdomain, as the names of nodes and pods are. Mirrors `IsDNS1123Subdomain`.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_DOMAIN && text.split('.').all(is_dns_label_of_any_length)
}

/// Whether a text is a DNS-1123 label, as the names of namespaces are. Mirrors `IsDNS1123Label`.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST_NAME && is_dns_label_of_any_length(text)
}

/// `[a-z0-9]([-a-z0-9]*[a-z0-9])?`. `IsDNS1123Subdomain` does not limit the labels of a subdomain.
fn is_dns_label_of_any_length(text: &str) -> bool {
    let end = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.bytes().all(|byte| end(byte) || byte == b'-') && has_ends(text, end)
}

/// Whether the first and last byte are valid; false for an empty text.
fn has_ends(text: &str, valid: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|first| valid(*first)) && bytes.last().is_some_and(|last| valid(*last))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks valid texts, and invalid ones with their error.
    fn check(rule: fn(&str) -> Result<String, String>, right: &[&str], wrong: &[&str], said: &str) {
        for text in right {
            assert_eq!(rule(text), Ok((*text).to_owned()));
        }
        for text in wrong {
            assert_eq!(rule(text), Err(format!("{} is not a {said}", echo(text))));
        }
    }

    #[test]
    fn namespaces() {
        let (longest, too_long) = ("a".repeat(63), "a".repeat(64));
        let wrong = ["", "-a", "a-", "A", "a.b", "a_b", "ä", too_long.as_str()];
        check(namespace, &["kube-system", "0", longest.as_str()], &wrong, "namespace");
    }

    #[test]
    fn label_keys() {
        let (longest, too_long) = (format!("a/{}", "b".repeat(63)), format!("a/{}", "b".repeat(64)));
        let (wide, too_wide) =
            (format!("{}/n", vec!["a"; 127].join(".")), format!("{}a/n", vec!["a"; 127].join(".")));
        let right = ["tier", "a", "A_b.c-D", "example.com/tier", "a-b.c/d", longest.as_str(), wide.as_str()];
        let wrong = [
            "",
            "/",
            "a/",
            "/a",
            "a/b/c",
            "-a",
            "a.",
            "A.b/c",
            "a..b/c",
            "a b",
            too_long.as_str(),
            too_wide.as_str(),
        ];
        check(label_key, &right, &wrong, "label key");
    }

    #[test]
    fn label_values() {
        let (longest, too_long) = ("a".repeat(63), "a".repeat(64));
        let wrong = ["-", "a-", ".a", "a/b", "a b", "ü", too_long.as_str()];
        check(label_value, &["", "a", "A-1_b.c", longest.as_str()], &wrong, "label value");
    }

    #[test]
    fn extended_resources() {
        let long = format!("{}/n", vec!["a"; 123].join("."));
        let right = ["example.com/gpu", "a/b", "nvidia.com/mig-1g.5gb"];
        let wrong = ["", "a/", "/a", "a/b/c", "A.com/b", "requests.example.com/gpu", long.as_str()];
        check(extended_resource, &right, &wrong, "resource");
        for text in ["cpu", "hugepages-2Mi", "kubernetes.io/x", "batch.kubernetes.io/x", "mykubernetes.io/x"]
        {
            assert_eq!(extended_resource(text), Err(format!("{text:?} is a native resource of Kubernetes")));
        }
    }
}
