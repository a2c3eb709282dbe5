//! OTLP over gRPC: a channel whose connection is a task of the runtime.

use opentelemetry_otlp::{Protocol, WithExportConfig, WithTonicConfig};
use tokio::runtime::Handle;
use tonic::{
    Request,
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};

use super::{StartError, tls};
use crate::Export;

/// Configures a gRPC exporter.
pub(super) fn set<B: WithTonicConfig + WithExportConfig>(
    builder: B,
    export: &Export,
    runtime: &Handle,
) -> Result<B, StartError> {
    let metadata = MetadataMap::from_headers(export.headers.clone());
    // Replaces all headers: the exporter has added those of the environment, which may be for another collector.
    let ours = move |mut request: Request<()>| {
        *request.metadata_mut() = metadata.clone();
        Ok(request)
    };
    let builder = builder.with_channel(channel(export, runtime)?).with_interceptor(ours);
    Ok(builder.with_protocol(Protocol::Grpc).with_timeout(export.timeout))
}

fn channel(export: &Export, runtime: &Handle) -> Result<Channel, StartError> {
    let connector = tls::connector(export)?.enable_http2().wrap_connector(tls::tcp(export));
    // While a connection is being made, only its own limit counts.
    let endpoint = Endpoint::from(export.endpoint.clone())
        .user_agent(super::USER_AGENT)
        .expect("a constant of visible ASCII")
        .timeout(export.timeout)
        .connect_timeout(export.timeout);
    let _inside = runtime.enter();
    Ok(endpoint.connect_with_connector_lazy(connector))
}
