//! Names of Kubernetes on the command line. What passes here needs no escaping in a URL.

/// The longest name of a pod or node in bytes.
const LONGEST: usize = 253;
/// The longest name of a namespace in bytes.
const LONGEST_LABEL: usize = 63;

/// Takes the name of a node. Mirrors `ValidateNodeName` of Kubernetes.
pub(super) fn node_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("node/").unwrap_or(text);
    let right = "say it as `kubectl get nodes` shows it";
    if is_subdomain(name) {
        Ok(name.to_owned())
    } else {
        Err(format!("{name:?} is not the name of a node; {right}"))
    }
}

/// Takes the name of a namespace. Mirrors `ValidateNamespaceName` of Kubernetes.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let right = "say it as `kubectl get namespaces` shows it";
    let is_label = text.len() <= LONGEST_LABEL && !text.contains('.') && is_subdomain(text);
    if is_label {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not the name of a namespace; {right}"))
    }
}

/// Mirrors `IsDNS1123Subdomain` of Kubernetes.
pub(super) fn is_subdomain(name: &str) -> bool {
    let ends = |label: &str| label.starts_with(is_alphanumeric) && label.ends_with(is_alphanumeric);
    let is_label = |label: &str| ends(label) && label.chars().all(|c| is_alphanumeric(c) || c == '-');
    name.len() <= LONGEST && name.split('.').all(is_label)
}

fn is_alphanumeric(character: char) -> bool {
    matches!(character, 'a'..='z' | '0'..='9')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_namespaces() {
        assert_eq!(node_name("node/a.b-1").as_deref(), Ok("a.b-1"));
        assert!(node_name("a_b").unwrap_err().starts_with("\"a_b\" is not the name of a node; say it as"));
        assert_eq!(namespace("shop").as_deref(), Ok("shop"));
        for text in ["a.b", "", "Shop", "a&b"] {
            let told = namespace(text).unwrap_err();
            assert!(
                told.ends_with("is not the name of a namespace; say it as `kubectl get namespaces` shows it"),
                "{told}"
            );
        }
    }
}
