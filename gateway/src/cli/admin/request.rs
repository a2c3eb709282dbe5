//! One request to an admin address, and its response.

use std::{error::Error, net::SocketAddr, pin::pin, time::Duration};

use bytes::Bytes;
use extender_apiserver::whole_text;
use http::{Request, Response, header::HOST};
use http_body_util::{BodyExt, Empty};
use hyper::{body::Body, client::conn::http1};
use hyper_util::rt::TokioIo;
use kube::Client;
use serde::Deserialize;
use tokio::{net::TcpStream, time::timeout};

use super::trouble::Trouble;
use crate::cli::apiserver::said;

/// How long a gateway may be silent: until it accepts the connection, until the response begins, and between its
/// chunks.
const PATIENCE: Duration = Duration::from_secs(5);

/// The timeout of the complete response. That of the largest decision log takes seconds.
const WHOLE: Duration = Duration::from_mins(1);

/// The largest response, in bytes: a hundred times that of a decision log of the default size.
const LARGEST: usize = 512 << 20;

/// The longest error message that is shown, in characters.
const LONGEST_MESSAGE: usize = 400;

/// Limits a step to the time that a gateway may be silent.
pub(super) async fn in_time<T>(work: impl Future<Output = T>) -> Result<T, Trouble> {
    timeout(PATIENCE, work).await.map_err(|_| Trouble::Late)
}

/// Sends the request to this address.
pub(super) async fn direct(address: SocketAddr, host: &str, path: &str) -> Result<Vec<u8>, Trouble> {
    let stream = in_time(TcpStream::connect(address)).await?.map_err(Trouble::Connect)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // It ends with the response, or with the process.
    tokio::spawn(connection);
    let request =
        Request::get(path).header(HOST, host).body(Empty::<Bytes>::new()).map_err(|error| broken(&error))?;
    let response = in_time(sender.send_request(request)).await?.map_err(|error| broken(&error))?;
    read(response).await
}

/// Sends the request through the apiserver, with its path.
pub(super) async fn proxied(client: &Client, path: &str) -> Result<Vec<u8>, Trouble> {
    let request = Request::get(path).body(kube::client::Body::empty()).map_err(|error| broken(&error))?;
    let response = in_time(client.send(request)).await?.map_err(|error| Trouble::Apiserver(said(error)))?;
    read(response).await
}

async fn read<B: Body<Data = Bytes>>(response: Response<B>) -> Result<Vec<u8>, Trouble>
where
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let code = response.status().as_u16();
    let body = timeout(WHOLE, whole(response.into_body())).await.map_err(|_| Trouble::Slow)??;
    if code == 200 { Ok(body) } else { Err(Trouble::Refused { code, message: message(&body) }) }
}

async fn whole<B: Body<Data = Bytes>>(body: B) -> Result<Vec<u8>, Trouble>
where
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let (mut body, mut read) = (pin!(body), Vec::new());
    while let Some(frame) = in_time(body.frame()).await? {
        let piece = frame.map_err(|error| broken(&*error.into()))?.into_data().unwrap_or_default();
        if read.len() + piece.len() > LARGEST {
            return Err(Trouble::TooLarge);
        }
        read.extend_from_slice(&piece);
    }
    Ok(read)
}

/// The text of an error: a gateway's `error`, an apiserver's `message`, or the beginning of the body.
fn message(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorMessage {
        #[serde(alias = "message")]
        error: String,
    }
    let text = serde_json::from_slice(body)
        .map_or_else(|_| String::from_utf8_lossy(body).into_owned(), |ErrorMessage { error }| error);
    text.trim().chars().take(LONGEST_MESSAGE).collect()
}

fn broken(error: &(dyn Error + 'static)) -> Trouble {
    Trouble::Broken(whole_text(error))
}
