//! How the backend announces its changes.

use extender_policy_api::v1beta1::{self as api, watch_service_server::SERVICE_NAME};
use http::uri::PathAndQuery;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::{
    case::{self, Case, Stop, failed, skipped},
    suite::Suite,
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "watch.listed" Must ["68.1"] "a backend that announces changes lists the service" => listed;
        "watch.first" Must ["68.1", "68.2"] "each stream begins with a message" => first;
    }
}

/// A stream with its first message.
async fn begun(suite: &Suite) -> Result<Result<Streaming<bytes::Bytes>, Status>, Stop> {
    let request = api::WatchRequest { backend: "conformance".to_owned(), args: suite.args.clone() };
    let (sender, receiver) = mpsc::channel(1);
    // There is room for it; without another one the request ends with it.
    let _ = sender.try_send(request.encode_to_vec().into());
    drop(sender);
    let path = PathAndQuery::from_static("/extender.policy.v1beta1.WatchService/Watch");
    let begun = async {
        let mut messages = suite.client.stream(path, ReceiverStream::new(receiver)).await?;
        let first = messages.message().await?;
        first.map(|_| messages).ok_or_else(|| Status::unavailable("the stream ended without a message"))
    };
    let patience = suite.client.patience();
    let late = |_| Stop::Failed(format!("Watch: no message within {patience:?}"));
    tokio::time::timeout(patience, begun).await.map_err(late)
}

async fn listed(suite: &Suite) -> Result<(), Stop> {
    if !suite.declared.lists(SERVICE_NAME) && begun(suite).await?.is_ok() {
        return failed(format!("Watch is answered, but `services` does not list {SERVICE_NAME}"));
    }
    Ok(())
}

async fn first(suite: &Suite) -> Result<(), Stop> {
    if !suite.declared.lists(SERVICE_NAME) {
        return skipped("WatchService is not listed");
    }
    let refused = |status: Status| Stop::refused("Watch", &status);
    let _one = begun(suite).await?.map_err(refused)?;
    begun(suite).await?.map(drop).map_err(refused)
}
