//! Kubernetes names on the command line. Accepted names need no escaping in a URL.

use extender_config::names::{is_dns_label, is_dns_subdomain};

/// Parses the name of a pod: `pod/NAME`, `pods/NAME`, `po/NAME` or `NAME`.
pub(super) fn pod(text: &str) -> Result<String, String> {
    let name = match text.split_once('/') {
        None => text,
        Some(("pod" | "pods" | "po", name)) => name,
        Some((kind, name)) => {
            return Err(format!("{kind:?} is not a pod; expected pod/{name}, with the namespace in -n"));
        }
    };
    let wrong = || format!("{name:?} is not the name of a pod; expected pod/NAME as in `kubectl get pods`");
    is_dns_subdomain(name).then(|| name.to_owned()).ok_or_else(wrong)
}

/// Parses the name of a node. Mirrors `ValidateNodeName` of Kubernetes.
pub(super) fn node(text: &str) -> Result<String, String> {
    let name = text.strip_prefix("node/").unwrap_or(text);
    let wrong = || format!("{name:?} is not the name of a node; expected a name as in `kubectl get nodes`");
    is_dns_subdomain(name).then(|| name.to_owned()).ok_or_else(wrong)
}

/// Parses the name of a namespace. Mirrors `ValidateNamespaceName` of Kubernetes.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let wrong =
        || format!("{text:?} is not the name of a namespace; expected a name as in `kubectl get namespaces`");
    is_dns_label(text).then(|| text.to_owned()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_namespaces() {
        assert_eq!(node("node/a.b-1").as_deref(), Ok("a.b-1"));
        assert!(
            node("a_b").unwrap_err().starts_with("\"a_b\" is not the name of a node; expected a name as")
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

    #[test]
    fn pods() {
        for text in ["pod/web-0", "pods/web-0", "po/web-0", "web-0"] {
            assert_eq!(pod(text).as_deref(), Ok("web-0"), "{text}");
        }
        for (text, wrong) in [
            ("deploy/web", "\"deploy\" is not a pod; expected pod/web, with the namespace in -n"),
            ("shop/web-0", "\"shop\" is not a pod; expected pod/web-0, with the namespace in -n"),
            ("pod/", "\"\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`"),
            ("pod/a/b", "\"a/b\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`"),
            ("Web", "\"Web\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`"),
            (
                "web?limit=1",
                "\"web?limit=1\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`",
            ),
        ] {
            assert_eq!(pod(text), Err(wrong.to_owned()), "{text}");
        }
    }
}
