//! The gateway's pods, queried through the apiserver.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};

use super::{request::in_time, trouble::Trouble};
use crate::cli::apiserver::said;

/// Selects the gateway's pods and their port.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) namespace: String,
    /// A label selector in kubectl's syntax.
    pub(super) labels: String,
    /// The port of `admin.address`.
    pub(super) port: u16,
}

/// One of the gateway's pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PodPlace {
    namespace: String,
    name: String,
    port: u16,
}

impl Selection {
    /// The running pods.
    ///
    /// # Errors
    /// The apiserver does not list them, or there is none.
    pub(super) async fn pods(&self, client: &Client) -> Result<Vec<PodPlace>, Trouble> {
        let pods: Api<Pod> = Api::namespaced(client.clone(), &self.namespace);
        let params = ListParams::default().labels(&self.labels);
        let listed = in_time(pods.list(&params)).await?.map_err(|error| Trouble::Apiserver(said(error)))?;
        let names = listed.items.into_iter().filter(runs).filter_map(|pod| pod.metadata.name);
        let places: Vec<_> = names.map(|name| self.place(name)).collect();
        if places.is_empty() { Err(Trouble::NoPods) } else { Ok(places) }
    }

    fn place(&self, name: String) -> PodPlace {
        PodPlace { namespace: self.namespace.clone(), name, port: self.port }
    }
}

fn runs(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

impl PodPlace {
    /// The path at the apiserver for this path at the pod.
    pub(super) fn path(&self, path: &str) -> String {
        let Self { namespace, name, port } = self;
        format!("/api/v1/namespaces/{namespace}/pods/{name}:{port}/proxy{path}")
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pods {} in namespace {}", self.labels, self.namespace)
    }
}

impl fmt::Display for PodPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}/{}, port {}", self.namespace, self.name, self.port)
    }
}
