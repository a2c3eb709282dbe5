//! Asks the apiserver who has a token, and whether that user may use a path.

use std::{sync::Arc, time::Duration};

use extender_apiserver::{ConnectError, RequestError, bounded, may, user_of};
use extender_gateway_cluster::client::SharedClient;
use extender_gateway_pace::fair_queue::{Flow, slots::Slots};
use tokio::time::timeout;

use super::cache::{Review, ReviewCache, ReviewKey};

/// How long a review may take, including its wait for others.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(5);
/// The most concurrent reviews. Each is two requests of some kilobytes, so tokens of strangers cost the apiserver no more than
/// this at a time.
const MOST_REVIEWS: u32 = 8;

/// Why the apiserver has not reviewed a token. Contains the remedy.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("the apiserver has not reviewed a token within {REVIEW_TIMEOUT:?}; check that it can be reached")]
    Late,
    #[error("too many tokens wait for their review; try again")]
    Busy,
    #[error("there is no apiserver that could review tokens: {0}")]
    Connect(#[from] ConnectError),
    #[error("the apiserver cannot review tokens: {0}{remedy}", remedy = remedy(.0))]
    Request(#[from] RequestError),
}

fn remedy(error: &RequestError) -> &'static str {
    match error.code() {
        Some(401) => "; check the token or client certificate of the kubeconfig or the service account",
        Some(403) => {
            "; the gateway's account needs the verb create for tokenreviews.authentication.k8s.io and \
             subjectaccessreviews.authorization.k8s.io, as the ClusterRole system:auth-delegator has it"
        }
        _ => "",
    }
}

/// Reviews of tokens. Their results are [kept for a short time](ReviewCache).
#[derive(Debug)]
pub struct Reviews {
    client: Arc<SharedClient>,
    results: ReviewCache,
    slots: Arc<Slots>,
}

impl Reviews {
    /// Reviews by this apiserver.
    pub fn new(client: Arc<SharedClient>) -> Self {
        Self { client, results: ReviewCache::default(), slots: Slots::fixed(MOST_REVIEWS) }
    }

    /// Whether the user of this token may do this with this path. Callers take turns, so that one with many tokens does
    /// not keep the others from being reviewed.
    pub(super) async fn review(
        &self,
        token: &str,
        verb: &str,
        path: &str,
        flow: Flow,
    ) -> Result<Review, ReviewError> {
        let key = ReviewKey::new(token, verb, path);
        if let Some(known) = self.results.get(&key) {
            return Ok(known);
        }
        let reviewed = timeout(REVIEW_TIMEOUT, async {
            let (mut slot, _) =
                self.slots.enter(flow, REVIEW_TIMEOUT).await.map_err(|_| ReviewError::Busy)?;
            slot.begin();
            // Another request may have been about the same.
            if let Some(known) = self.results.get(&key) {
                return Ok(known);
            }
            let review = self.ask(token, verb, path).await?;
            slot.note_answer();
            self.results.insert(key, review.clone());
            Ok(review)
        });
        reviewed.await.unwrap_or(Err(ReviewError::Late))
    }

    async fn ask(&self, token: &str, verb: &str, path: &str) -> Result<Review, ReviewError> {
        let client = self.client.get().await?;
        let Some(user) = user_of(&client, token).await? else { return Ok(Review::Unauthenticated) };
        let is_allowed = may(&client, &user, verb, path).await?;
        let user = bounded(&user.username.unwrap_or_default()).into();
        Ok(if is_allowed { Review::Allowed { user } } else { Review::NotAllowed { user } })
    }
}

#[cfg(test)]
mod tests {
    use std::{
        future::pending,
        sync::atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use futures_util::future::join_all;
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::{Value, json};
    use tokio::time::{Instant, advance, sleep};

    use super::{super::cache::KEPT_FOR, *};

    const FLOW: Flow = Flow::Certificate(1);
    const MOST: usize = MOST_REVIEWS as usize;

    /// An apiserver with the user `reader`, whose token is `reader` and who may get `/metrics`, and the user `other`. Each answer
    /// takes a second.
    #[derive(Default)]
    struct Apiserver {
        tokens: AtomicUsize,
        concurrent: AtomicUsize,
        most: AtomicUsize,
    }

    impl Apiserver {
        async fn answer(&self, request: Request<Body>) -> Result<Response<Body>, std::io::Error> {
            let path = request.uri().path().to_owned();
            let json = request.into_body().collect_bytes().await.unwrap();
            let mut review: Value = serde_json::from_slice(&json).unwrap();
            self.most.fetch_max(self.concurrent.fetch_add(1, Relaxed) + 1, Relaxed);
            sleep(Duration::from_secs(1)).await;
            self.concurrent.fetch_sub(1, Relaxed);
            let spec = &review["spec"];
            review["status"] = if path.ends_with("/tokenreviews") {
                self.tokens.fetch_add(1, Relaxed);
                match spec["token"].as_str().unwrap() {
                    "hang" => pending().await,
                    user @ ("reader" | "other") => json!({"authenticated": true, "user": {"username": user}}),
                    _ => json!({"authenticated": false}),
                }
            } else {
                let allowed = json!({"path": "/metrics", "verb": "get"});
                json!({"allowed": spec["user"] == "reader" && spec["nonResourceAttributes"] == allowed})
            };
            Ok(Response::new(Body::from(review.to_string().into_bytes())))
        }
    }

    fn start() -> (Arc<Apiserver>, Reviews) {
        let apiserver = Arc::new(Apiserver::default());
        let answering = Arc::clone(&apiserver);
        let service = tower::service_fn(move |request| {
            let apiserver = Arc::clone(&answering);
            async move { apiserver.answer(request).await }
        });
        let client = SharedClient::from(Client::new(service, "default"));
        (apiserver, Reviews::new(Arc::new(client)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_asked_for_once_in_its_time() {
        let (apiserver, reviews) = start();
        let not_allowed = Review::NotAllowed { user: "other".into() };
        for (token, path, expected) in [
            ("reader", "/metrics", Review::Allowed { user: "reader".into() }),
            ("reader", "/other", Review::NotAllowed { user: "reader".into() }),
            ("other", "/metrics", not_allowed),
            ("nobody", "/metrics", Review::Unauthenticated),
        ] {
            let before = apiserver.tokens.load(Relaxed);
            for _ in 0..3 {
                assert_eq!(reviews.review(token, "get", path, FLOW).await.unwrap(), expected);
            }
            assert_eq!(apiserver.tokens.load(Relaxed), before + 1);
            advance(KEPT_FOR).await;
            assert_eq!(reviews.review(token, "get", path, FLOW).await.unwrap(), expected);
            assert_eq!(apiserver.tokens.load(Relaxed), before + 2);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_wait_for_each_other_and_one_of_the_same_is_enough() {
        let (apiserver, reviews) = start();
        let tokens: Vec<String> = (0..MOST * 2).map(|token| token.to_string()).collect();
        let reviewed =
            join_all(tokens.iter().map(|token| reviews.review(token, "get", "/metrics", FLOW))).await;
        assert!(reviewed.iter().all(|review| matches!(review, Ok(Review::Unauthenticated))));
        assert_eq!(apiserver.most.load(Relaxed), MOST);
        apiserver.tokens.store(0, Relaxed);
        join_all((0..100).map(|_| reviews.review("reader", "get", "/metrics", FLOW))).await;
        assert!(apiserver.tokens.load(Relaxed) <= MOST);
    }

    #[tokio::test(start_paused = true)]
    async fn a_caller_with_many_tokens_does_not_keep_another_from_its_review() {
        let (_, reviews) = start();
        // Each takes a second, so that all of them take three.
        let tokens: Vec<String> = (0..MOST * 3).map(|token| token.to_string()).collect();
        let greedy = join_all(tokens.iter().map(|token| reviews.review(token, "get", "/metrics", FLOW)));
        let began = Instant::now();
        let modest = async {
            let reviewed = reviews.review("reader", "get", "/metrics", Flow::Certificate(2)).await;
            (reviewed, began.elapsed())
        };
        let (_, (reviewed, took)) = tokio::join!(greedy, modest);
        assert!(matches!(reviewed, Ok(Review::Allowed { .. })), "{reviewed:?}");
        assert_eq!(
            took,
            Duration::from_secs(1 + 2),
            "it waits for those that have begun, and not for the others"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_apiserver_that_does_not_answer_costs_a_bounded_time() {
        let (_, reviews) = start();
        let began = Instant::now();
        let late = reviews.review("hang", "get", "/metrics", FLOW).await;
        assert!(matches!(late, Err(ReviewError::Late)), "{late:?}");
        assert_eq!(began.elapsed(), REVIEW_TIMEOUT);
        assert_eq!(
            reviews.review("reader", "get", "/metrics", FLOW).await.unwrap(),
            Review::Allowed { user: "reader".into() },
            "its turn has ended"
        );
    }

    #[test]
    fn a_missing_permission_has_its_remedy() {
        let refused = RequestError::Refused { code: 403, message: "no".to_owned() };
        let told = ReviewError::from(refused).to_string();
        assert!(
            told.starts_with("the apiserver cannot review tokens: no; the gateway's account needs "),
            "{told}"
        );
    }
}
