//! The pod argument: `pod/NAME`, `pods/NAME`, `po/NAME` or `NAME`.

use std::str::FromStr;

use extender_config::names::is_dns_subdomain;

/// The name of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodName(pub(super) String);

impl FromStr for PodName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = match text.split_once('/') {
            None => text,
            Some(("pod" | "pods" | "po", name)) => name,
            Some((kind, name)) => {
                return Err(format!("{kind:?} is not a pod; expected pod/{name}, with the namespace in -n"));
            }
        };
        if is_dns_subdomain(name) {
            return Ok(Self(name.to_owned()));
        }
        Err(format!("{name:?} is not the name of a pod; expected pod/NAME as in `kubectl get pods`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods() {
        for text in ["pod/web-0", "pods/web-0", "po/web-0", "web-0"] {
            assert_eq!(text.parse(), Ok(PodName("web-0".to_owned())), "{text}");
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
            assert_eq!(text.parse::<PodName>(), Err(wrong.to_owned()), "{text}");
        }
    }
}
