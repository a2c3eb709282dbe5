//! Accepts connections: limited in number, and with a pause after an error. Without the limit a client that opens
//! many leaves no file descriptors for the policy itself; without the pause, accepting in vain keeps a processor
//! busy. With TLS, the handshakes run beside accepting: a client that does not finish its own keeps one place of the
//! limit until its time is over.

use std::{fs, io, sync::Arc, time::Duration};

use futures_util::{Stream, StreamExt, stream::unfold};
use tokio::{
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

use super::{
    Tls,
    joined::{Joined, Transport},
    tls::handshake,
    turn::LogTurn,
};

/// The pause after an error, which is most often a lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// The most connections. Gateways keep one or two each.
const MAX_CONNECTIONS: u64 = 1_000;

/// The limit of descriptors if the system does not report one: the usual one.
const USUAL_DESCRIPTORS: u64 = 1_024;

/// The connections that are served. The stream does not end and has no errors.
pub(super) fn connections(
    accepted: impl Stream<Item = io::Result<TcpStream>> + Unpin,
    tls: Option<Arc<Tls>>,
) -> impl Stream<Item = io::Result<Joined>> {
    let most = most_connections(descriptors());
    let secured = limited(accepted, most).map(move |accepted| secured(accepted, tls.clone()));
    secured.buffer_unordered(most).filter_map(async |joined| joined.map(Ok))
}

/// A connection, and its place in the limit.
#[derive(Debug)]
struct Accepted {
    stream: TcpStream,
    slot: OwnedSemaphorePermit,
}

/// The connection after its handshake, if there is one to be made; `None` if that failed.
async fn secured(Accepted { stream, slot }: Accepted, tls: Option<Arc<Tls>>) -> Option<Joined> {
    let transport = match tls {
        None => Transport::Plain(stream),
        Some(tls) => Transport::Tls(Box::new(handshake(&tls, stream).await?)),
    };
    Some(Joined::new(transport, slot))
}

fn limited(
    accepted: impl Stream<Item = io::Result<TcpStream>> + Unpin,
    most: usize,
) -> impl Stream<Item = Accepted> {
    let limit = Limit { most, slots: Arc::new(Semaphore::new(most)), logged: LogTurn::default() };
    unfold((accepted, limit), async |(mut accepted, mut limit)| {
        loop {
            match accepted.next().await? {
                Ok(stream) => {
                    if let Some(slot) = limit.slot() {
                        return Some((Accepted { stream, slot }, (accepted, limit)));
                    }
                }
                Err(error) => limit.failed(&error).await,
            }
        }
    })
}

/// The limit of connections, and when it was last logged.
struct Limit {
    most: usize,
    slots: Arc<Semaphore>,
    logged: LogTurn,
}

impl Limit {
    /// `None` at the limit. The connection is closed at once: one that waited in the system's queue would look
    /// alive.
    fn slot(&mut self) -> Option<OwnedSemaphorePermit> {
        let slot = Arc::clone(&self.slots).try_acquire_owned().ok();
        if slot.is_none() && self.logged.may_log() {
            tracing::warn!(
                "a connection is refused: there are {} already; look for clients other than the gateway, or raise the \
                 limit of open files",
                self.most
            );
        }
        slot
    }

    async fn failed(&mut self, error: &io::Error) {
        if self.logged.may_log() {
            tracing::warn!(
                "a connection cannot be accepted: {error}; if files are lacking, raise their limit"
            );
        }
        sleep(PAUSE).await;
    }
}

/// A quarter of the descriptors stays for what the policy opens itself.
fn most_connections(descriptors: u64) -> usize {
    let most = MAX_CONNECTIONS.min(descriptors / 4 * 3).max(1);
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// The soft limit of this process's descriptors.
fn descriptors() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let soft = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_whitespace().next());
    match soft {
        Some("unlimited") => u64::MAX,
        soft => soft.and_then(|soft| soft.parse().ok()).unwrap_or(USUAL_DESCRIPTORS),
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, pin::pin};

    use futures_util::stream::repeat_with;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::timeout,
    };
    use tonic::transport::server::TcpIncoming;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_lack_of_descriptors_is_no_busy_loop() {
        const TOO_MANY_OPEN_FILES: i32 = 24;
        let polls = Cell::new(0);
        let failing = repeat_with(|| {
            polls.set(polls.get() + 1);
            assert!(polls.get() < 1_000, "it is asked again without a pause");
            Err(io::Error::from_raw_os_error(TOO_MANY_OPEN_FILES))
        });
        let mut connections = pin!(limited(failing, 2));
        timeout(Duration::from_secs(1), connections.next()).await.unwrap_err();
        assert!((2..=11).contains(&polls.get()), "{} polls in a second", polls.get());
    }

    #[tokio::test]
    async fn a_connection_beyond_the_limit_is_closed_and_one_that_ends_makes_room() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = pin!(limited(TcpIncoming::from(listener), 1));
        let _first = TcpStream::connect(address).await.unwrap();
        let held = connections.next().await.unwrap();
        let mut second = TcpStream::connect(address).await.unwrap();
        let mut byte = [0];
        tokio::select! {
            _ = connections.next() => panic!("there is no room"),
            read = second.read(&mut byte) => assert!(matches!(read, Ok(0) | Err(_)), "{read:?}"),
        }
        drop(held);
        let _third = TcpStream::connect(address).await.unwrap();
        connections.next().await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_does_not_begin_is_closed_and_another_takes_its_place() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = pin!(limited(TcpIncoming::from(listener), 1));
        for sent in [&b""[..], b"PRI * HTTP/2.0"] {
            let mut silent = TcpStream::connect(address).await.unwrap();
            silent.write_all(sent).await.unwrap();
            let mut joined = secured(connections.next().await.unwrap(), None).await.unwrap();
            let mut received = Vec::new();
            tokio::time::pause();
            let ended = joined.read_to_end(&mut received).await.unwrap_err();
            tokio::time::resume();
            assert_eq!((ended.kind(), &*received), (io::ErrorKind::TimedOut, sent));
        }
        let _next = TcpStream::connect(address).await.unwrap();
        connections.next().await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_has_begun_may_be_silent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let mut connections = pin!(limited(TcpIncoming::from(listener), 1));
        let mut joined = secured(connections.next().await.unwrap(), None).await.unwrap();
        client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
        joined.read_exact(&mut [0; 33]).await.unwrap();
        tokio::time::pause();
        timeout(Duration::from_mins(1), joined.read_u8()).await.unwrap_err();
    }

    #[test]
    fn a_quarter_of_the_descriptors_is_left() {
        assert_eq!([0, 1, 1_024, u64::MAX].map(most_connections), [1, 1, 768, 1_000]);
        assert!(descriptors() > 8);
    }
}
