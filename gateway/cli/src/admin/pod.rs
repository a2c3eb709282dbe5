//! A replica in a cluster: through a port that is forwarded to its pod, which reaches an admin address of the pod's own
//! loopback, or through the apiserver's proxy.

use std::{fmt, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client};

use super::{
    access::Access,
    request::{self, AdminQuery, Peer, QueryError, with_timeout},
};
use crate::apiserver::error_text;

/// The gateway's name in the chart; its certificate has the names of its Service.
const SERVICE: &str = "extender-gateway";

const FORBIDDEN: &str = "; the account of the kubeconfig needs the rule {apiGroups: [\"\"], resources: [pods/portforward], verbs: \
                         [get, create]} in this namespace";
const NO_UPGRADE: &str = "; a proxy before the apiserver may pass no WebSocket on: use `kubectl port-forward`, and --gateway with \
                          the forwarded port";
const NO_KUBELET: &str = "; check that the pod's node is Ready, and that the apiserver reaches its kubelet";

/// A pod of the gateway.
pub(super) struct AdminPod {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The port of `admin.address`.
    pub(super) port: u16,
    pub(super) access: Arc<Access>,
}

impl fmt::Display for AdminPod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pod {}/{}, port {}", self.namespace, self.name, self.port)
    }
}

impl AdminPod {
    /// The body of the response. The proxy carries no credentials, and verifies no certificate, so it is tried only without
    /// any: for accounts that may not forward ports, and networks that pass no WebSocket on.
    pub(super) async fn query(&self, query: AdminQuery<'_>) -> Result<Vec<u8>, QueryError> {
        let forwarded =
            match self.forwarded(query).await {
                Err(
                    error @ (QueryError::NotForwarded { .. } | QueryError::InPod(_) | QueryError::NeedsTls),
                ) if self.access.tls.is_none() && self.access.authorization.is_none() => error,
                answer => return answer,
            };
        let proxied = self.proxied(query).await;
        proxied.map_err(|proxied| QueryError::BothWays {
            forwarded: Box::new(forwarded),
            proxied: Box::new(proxied),
        })
    }

    async fn forwarded(&self, query: AdminQuery<'_>) -> Result<Vec<u8>, QueryError> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let mut forwarder =
            with_timeout(pods.portforward(&self.name, &[self.port])).await?.map_err(not_forwarded)?;
        let (stream, refusal) = (forwarder.take_stream(self.port), forwarder.take_error(self.port));
        let (Some(stream), Some(refusal)) = (stream, refusal) else {
            return Err(QueryError::Broken("the port was not forwarded".to_owned()));
        };
        let authority = format!("localhost:{}", self.port);
        let host = format!("{SERVICE}.{}.svc", self.namespace);
        let peer = Peer { authority: &authority, host: &host, tls: self.access.tls.clone() };
        let answer = request::over(stream, peer, &self.access, query).await;
        let Err(error @ (QueryError::Broken(_) | QueryError::Tls(_))) = answer else { return answer };
        // The kubelet says why it could not connect, and closes the stream.
        match with_timeout(refusal).await {
            Ok(Some(why)) => Err(QueryError::InPod(why.trim().to_owned())),
            _ => Err(error),
        }
    }

    async fn proxied(&self, query: AdminQuery<'_>) -> Result<Vec<u8>, QueryError> {
        let Self { client, namespace, name, port, .. } = self;
        let path =
            |scheme| format!("/api/v1/namespaces/{namespace}/pods/{scheme}{name}:{port}/proxy{}", query.path);
        match request::proxied(client, &path(""), query).await {
            Err(QueryError::NeedsTls) => request::proxied(client, &path("https:"), query).await,
            answer => answer,
        }
    }
}

fn not_forwarded(error: kube::Error) -> QueryError {
    let remedy = match &error {
        kube::Error::Api(status) if status.code == 403 => FORBIDDEN,
        kube::Error::Api(status) if status.code >= 500 => NO_KUBELET,
        kube::Error::UpgradeConnection(_) => NO_UPGRADE,
        _ => "",
    };
    QueryError::NotForwarded { why: error_text(error), remedy }
}
