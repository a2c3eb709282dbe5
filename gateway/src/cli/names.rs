//! Kubernetes names on the command line. Accepted names need no escaping in a URL.

use extender_config::names::{is_dns_label, is_dns_subdomain};

/// Parses the name of a node. Mirrors `ValidateNodeName` of Kubernetes.
pub(super) fn node_name(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("node/").unwrap_or(text);
    let right = "expected a name as in `kubectl get nodes`";
    if is_dns_subdomain(name) {
        Ok(name.to_owned())
    } else {
        Err(format!("{name:?} is not the name of a node; {right}"))
    }
}

/// Parses the name of a namespace. Mirrors `ValidateNamespaceName` of Kubernetes.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let right = "expected a name as in `kubectl get namespaces`";
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not the name of a namespace; {right}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_namespaces() {
        assert_eq!(node_name("node/a.b-1").as_deref(), Ok("a.b-1"));
        assert!(
            node_name("a_b")
                .unwrap_err()
                .starts_with("\"a_b\" is not the name of a node; expected a name as")
        );
        assert_eq!(namespace("shop").as_deref(), Ok("shop"));
        for text in ["a.b", "", "Shop", "a&b"] {
            let told = namespace(text).unwrap_err();
            assert!(
                told.ends_with(
                    "is not the name of a namespace; expected a name as in `kubectl get namespaces`"
                ),
                "{told}"
            );
        }
    }
}
