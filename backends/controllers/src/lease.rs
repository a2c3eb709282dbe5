//! The Lease of an election: its name, and the object at the apiserver.

use std::{env, fs};

use extender_apiserver::{RequestError, read};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Client, Resource as _,
    api::{GetParams, PostParams},
    core::Request,
};

use crate::candidate::Store;

/// The largest Lease in bytes that is read.
const LARGEST: usize = 1 << 20;

/// The pod's namespace: the variable that manifests set from `metadata.namespace`, and the file of the service account.
const NAMESPACE_VARIABLE: &str = "POD_NAMESPACE";
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Which Lease replicas compete for. Backends with different controllers have different ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseName {
    namespace: Option<String>,
    name: String,
}

impl LeaseName {
    /// A Lease in this namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// A Lease in the namespace of the pod: that of the variable `POD_NAMESPACE` or, if it is not set, of the service
    /// account.
    pub fn in_own_namespace(name: impl Into<String>) -> Self {
        let file = || fs::read_to_string(NAMESPACE_FILE).ok();
        let namespace = env::var(NAMESPACE_VARIABLE).ok().filter(|given| !given.is_empty()).or_else(file);
        Self { namespace: namespace.map(|namespace| namespace.trim().to_owned()), name: name.into() }
    }

    /// The name as NAMESPACE/NAME.
    ///
    /// # Errors
    /// It is not a valid name in Kubernetes, or there is no namespace.
    pub(crate) fn checked(&self) -> Result<String, String> {
        let Self { namespace, name } = self;
        let Some(namespace) = namespace else {
            return Err(format!(
                "the lease {name:?} has no namespace; set {NAMESPACE_VARIABLE}, or use LeaseName::new"
            ));
        };
        for (what, text, most) in [("namespace", namespace, 63), ("name", name, 253)] {
            if !is_name(text) || text.len() > most {
                return Err(format!(
                    "the lease has the {what} {text:?}; expected 1 to {most} lowercase letters, digits, \"-\" and \".\""
                ));
            }
        }
        Ok(format!("{namespace}/{name}"))
    }
}

/// Also keeps a name from being a part of another path at the apiserver.
fn is_name(text: &str) -> bool {
    let alphanumeric = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [text.bytes().next(), text.bytes().last()];
    ends.into_iter().all(|end| end.is_some_and(alphanumeric))
        && text.bytes().all(|byte| alphanumeric(byte) || byte == b'-' || byte == b'.')
}

/// The Lease at the apiserver.
pub(crate) struct StoredLease {
    client: Client,
    namespace: String,
    name: String,
}

impl StoredLease {
    pub(crate) fn new(client: Client, name: &LeaseName) -> Self {
        let LeaseName { namespace, name } = name.clone();
        Self { client, namespace: namespace.unwrap_or_default(), name }
    }

    fn request(&self) -> Request {
        Request::new(Lease::url_path(&(), Some(&self.namespace)))
    }
}

impl Store for StoredLease {
    async fn read(&self) -> Result<Option<Lease>, RequestError> {
        match read(&self.client, self.request().get(&self.name, &GetParams::default()), LARGEST).await {
            Ok(json) => parsed(&json).map(Some),
            // A proxy that knows no such path is no proof that there is no such Lease.
            Err(RequestError::Refused { code: 404, .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn write(&self, mut lease: Lease) -> Result<Lease, RequestError> {
        lease.metadata.namespace = Some(self.namespace.clone());
        lease.metadata.name = Some(self.name.clone());
        let json = serde_json::to_vec(&lease).expect("texts and numbers can be written to memory");
        // Without a version there is no precondition, and only a lease that does not exist may be written.
        let request = if lease.metadata.resource_version.is_some() {
            self.request().replace(&self.name, &PostParams::default(), json)
        } else {
            self.request().create(&PostParams::default(), json)
        };
        parsed(&read(&self.client, request, LARGEST).await?)
    }
}

fn parsed(json: &[u8]) -> Result<Lease, RequestError> {
    serde_json::from_slice(json)
        .map_err(|error| RequestError::Failed(format!("the answer is not a Lease: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_kubernetes() {
        assert_eq!(LeaseName::new("shop", "quota-1.a").checked().unwrap(), "shop/quota-1.a");
        let long = "n".repeat(64);
        for (namespace, name) in [
            ("", "a"),
            ("shop", ""),
            ("shop", "a/b"),
            ("..", "a"),
            ("shop", "A"),
            ("shop", "-a"),
            (&*long, "a"),
        ] {
            let error = LeaseName::new(namespace, name).checked().unwrap_err();
            assert!(error.contains("expected 1 to"), "{error}");
        }
        let homeless = LeaseName { namespace: None, name: "quota".to_owned() };
        assert!(homeless.checked().unwrap_err().contains("set POD_NAMESPACE"));
    }
}
