//! Backends that announce their changes.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use extender_policy_api::v1beta1::{GetInfoResponse, WatchRequest};
use prost::Message;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::{
    Gateway,
    backend::{Act, Scripted, configured, filtered},
    eager,
    function::{about, pure, sibling},
    reading, until,
};
use extender_gateway_pace::cadences::Cadences;

/// A pure backend that rejects the node that its revision names, and announces changes.
struct Announcing {
    backend: Scripted,
    revision: Arc<Mutex<&'static str>>,
    /// Its end of the latest stream.
    changes: Arc<Mutex<Option<watch::Sender<()>>>>,
    /// What it answers to `Watch` in place of a stream.
    refusal: Arc<Mutex<Option<Act>>>,
    is_silent: Arc<AtomicBool>,
    /// Whether its handshakes leave `WatchService` out.
    is_unlisted: Arc<AtomicBool>,
}

impl Announcing {
    async fn start() -> Self {
        let revision = Arc::new(Mutex::new("a"));
        let (changes, refusal, is_silent) = (
            Arc::<Mutex<Option<watch::Sender<()>>>>::default(),
            Arc::<Mutex<Option<Act>>>::default(),
            Arc::default(),
        );
        let (now, latest, refused) = (Arc::clone(&revision), Arc::clone(&changes), Arc::clone(&refusal));
        let silent = Arc::<AtomicBool>::clone(&is_silent);
        let is_unlisted = Arc::<AtomicBool>::default();
        let unlisted = Arc::clone(&is_unlisted);
        let script = move |verb: &str, message: bytes::Bytes| {
            let revision = *now.lock().unwrap();
            match verb {
                _ if silent.load(Ordering::Relaxed) => Act::Hang,
                "GetInfo" => {
                    let is_listed = !unlisted.load(Ordering::Relaxed);
                    let services = is_listed
                        .then(|| "extender.policy.v1beta1.WatchService".to_owned())
                        .into_iter()
                        .collect();
                    let info =
                        GetInfoResponse { services, revision: revision.into(), ..pure(reading::names()) };
                    Act::Message(info.encode_to_vec())
                }
                "Watch" => refused.lock().unwrap().clone().unwrap_or_else(|| {
                    let (sender, receiver) = watch::channel(());
                    *latest.lock().unwrap() = Some(sender);
                    Act::Announce(receiver)
                }),
                _ => {
                    let mut answer = filtered(&message, &[revision], "revised");
                    answer.result.as_mut().unwrap().revision = revision.into();
                    Act::Message(answer.encode_to_vec())
                }
            }
        };
        let backend = Scripted::start_bare(script, None).await;
        Self { backend, revision, changes, refusal, is_silent, is_unlisted }
    }

    fn handshakes(&self) -> usize {
        self.backend.messages("GetInfo").len()
    }

    /// Has another revision, and says that something has changed.
    fn revise(&self, revision: &'static str) {
        *self.revision.lock().unwrap() = revision;
        self.changes.lock().unwrap().as_ref().unwrap().send_replace(());
    }

    async fn until_watched(&self, streams: usize) {
        // The first message of a stream is answered by a handshake.
        until("a stream", || self.backend.messages("Watch").len() >= streams).await;
        let before = self.handshakes();
        until("a handshake", || self.handshakes() > before || before > streams).await;
    }
}

/// Handshakes come only when a change is announced, unless there is no stream: then they come as in [`eager`].
fn announced() -> Cadences {
    Cadences { announced_refresh: Duration::from_hours(1), ..eager() }
}

async fn gateway(announcing: &Announcing, cadences: Cadences) -> Gateway {
    let backend = configured("only", &announcing.backend, "args: {zone: z1}, filter: {timeout: 60s}");
    Gateway::start_paced(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backend}"), cadences).await
}

async fn left(gateway: &Gateway) -> Value {
    gateway.post("/filter", about(&sibling(1), &["a", "b"])).await.json()["NodeNames"].clone()
}

async fn until_left(gateway: &Gateway, name: &str) {
    let expected = json!([name]);
    tokio::time::timeout(crate::support::TEST_TIMEOUT, async {
        while left(gateway).await != expected {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn an_announced_change_is_used_at_once_and_a_lost_stream_is_made_up_for() {
    let announcing = Announcing::start().await;
    // Without an announcement the next handshake would come after the end of the test.
    let gateway = gateway(&announcing, Cadences { refresh: Duration::from_hours(1), ..announced() }).await;
    announcing.until_watched(1).await;
    assert_eq!(left(&gateway).await, json!(["b"]));
    announcing.revise("b");
    until_left(&gateway, "a").await;
    announcing.revise("a");
    until_left(&gateway, "b").await;
    let request = WatchRequest::decode(announcing.backend.messages("Watch")[0].clone()).unwrap();
    assert_eq!((&*request.backend, &*request.args), ("only", &br#"{"zone":"z1"}"#[..]));
    // What changes while there is no stream is seen when it ends, or when there is one again.
    *announcing.revision.lock().unwrap() = "b";
    announcing.changes.lock().unwrap().take();
    until_left(&gateway, "a").await;
    announcing.until_watched(2).await;
    announcing.revise("a");
    until_left(&gateway, "b").await;
}

#[tokio::test]
async fn a_service_that_is_listed_now_and_then_is_followed_by_one_stream() {
    let announcing = Announcing::start().await;
    let gateway = gateway(&announcing, Cadences { refresh: Duration::from_hours(1), ..announced() }).await;
    announcing.until_watched(1).await;
    for (is_unlisted, revision, left) in
        [(true, "b", "a"), (false, "a", "b"), (true, "b", "a"), (false, "a", "b")]
    {
        announcing.is_unlisted.store(is_unlisted, Ordering::Relaxed);
        announcing.revise(revision);
        until_left(&gateway, left).await;
    }
    assert_eq!(announcing.backend.messages("Watch").len(), 1);
}

#[tokio::test]
async fn handshakes_are_frequent_exactly_while_there_is_no_stream() {
    let announcing = Announcing::start().await;
    let _gateway = gateway(&announcing, announced()).await;
    announcing.until_watched(1).await;
    // Later than the handshake for the first message, none follows.
    let settled = || async {
        let before = announcing.handshakes();
        tokio::time::sleep(20 * eager().refresh).await;
        announcing.handshakes() == before
    };
    until_settled(settled).await;
    *announcing.refusal.lock().unwrap() = Some(Act::Status(14, "later"));
    announcing.changes.lock().unwrap().take();
    let before = announcing.handshakes();
    until("frequent handshakes", || announcing.handshakes() > before + 20).await;
    *announcing.refusal.lock().unwrap() = None;
    let streams = announcing.backend.messages("Watch").len();
    announcing.until_watched(streams + 1).await;
    until_settled(settled).await;
}

async fn until_settled<S: Future<Output = bool>>(settled: impl Fn() -> S) {
    tokio::time::timeout(crate::support::TEST_TIMEOUT, async { while !settled().await {} }).await.unwrap();
}

/// Neither a stream that is not implemented, nor one that never answers, nor one that floods costs more than handshakes.
#[tokio::test]
async fn a_stream_that_does_not_work_leaves_frequent_handshakes() {
    for refusal in
        [Act::Status(12, ""), Act::Hang, Act::Message(vec![9; 70_000]), Act::Framed(vec![1; 9]), Act::Reset]
    {
        let announcing = Announcing::start().await;
        *announcing.refusal.lock().unwrap() = Some(refusal.clone());
        let gateway = gateway(&announcing, announced()).await;
        until("frequent handshakes", || announcing.handshakes() > 20).await;
        *announcing.revision.lock().unwrap() = "b";
        until_left(&gateway, "a").await;
    }
}

/// A breaker is probed only after a handshake.
#[tokio::test]
async fn a_backend_that_has_been_silent_is_asked_again_although_it_announces_changes() {
    let announcing = Announcing::start().await;
    let backend = configured("only", &announcing.backend, "filter: {timeout: 50ms}");
    let cadences =
        Cadences { handshake: Duration::from_millis(100), probe: Duration::from_millis(10), ..announced() };
    let gateway =
        Gateway::start_paced(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backend}"), cadences).await;
    announcing.until_watched(1).await;
    announcing.is_silent.store(true, Ordering::Relaxed);
    // Each about another node, which no cached answer is about.
    for number in 0..10 {
        let names = [format!("a-{number}")];
        gateway.post("/filter", about(&sibling(1), &[&names[0]])).await;
    }
    announcing.is_silent.store(false, Ordering::Relaxed);
    until_left(&gateway, "b").await;
}
