use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use extender_gateway_core::Verb;
use extender_gateway_observe::{Metrics, samples};
use extender_gateway_record::{CallOutcome, CallRecord};
use http::{Request, Response};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{task::yield_now, time::advance};

use super::*;

/// An apiserver that answers with this status, and what it was sent.
#[derive(Default)]
struct Apiserver {
    /// The status of answers about these pods; all others are 200.
    statuses: Mutex<BTreeMap<String, u16>>,
    /// For all pods, if it is set.
    of_all: Mutex<Option<u16>>,
    /// How long an answer takes.
    takes: Mutex<Duration>,
    /// The pods of the requests, and when each was sent.
    requests: Mutex<Vec<(String, Instant)>>,
    now: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Apiserver {
    fn client(self: &Arc<Self>) -> Client {
        let this = Arc::clone(self);
        let service = tower::service_fn(move |request: Request<Body>| {
            let this = Arc::clone(&this);
            async move {
                let pod = request.uri().path().split('/').nth(6).unwrap_or_default().to_owned();
                let at_once = this.now.fetch_add(1, Ordering::Relaxed) + 1;
                this.most_at_once.fetch_max(at_once, Ordering::Relaxed);
                this.requests.lock().push((pod.clone(), Instant::now()));
                let takes = *this.takes.lock();
                sleep(takes).await;
                this.now.fetch_sub(1, Ordering::Relaxed);
                let status = this.of_all.lock().or_else(|| this.statuses.lock().get(&pod).copied());
                let status = status.unwrap_or(200);
                let body =
                    format!(r#"{{"kind":"Status","status":"Failure","message":"no","code":{status}}}"#);
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(
                    Response::builder().status(status).body(Body::from(body.into_bytes()))?,
                )
            }
        });
        Client::new(service, "default")
    }

    fn pods(&self) -> Vec<String> {
        self.requests.lock().iter().map(|(pod, _)| pod.clone()).collect()
    }
}

/// The task, with pods that wait because of backend `zones`.
struct Scene {
    apiserver: Arc<Apiserver>,
    observer: Arc<Observer>,
    wanted: watch::Sender<bool>,
    pods: Arc<PodTable>,
}

impl Scene {
    fn new(pods: usize) -> Self {
        let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), 0));
        let scene = Self {
            apiserver: Arc::default(),
            observer,
            wanted: watch::Sender::new(true),
            pods: Arc::default(),
        };
        (0..pods).for_each(|number| scene.reject(&format!("web-{number}")));
        scene
    }

    fn reject(&self, pod: &str) {
        let part = samples::part("zones", samples::refused(&[("full", &[0])]));
        let record = CallRecord { left: Some(0), ..samples::record(pod, &["a"], vec![part]) };
        self.observer.waiting.record(Verb::Filter, CallOutcome::Ok, &record);
    }

    /// The backend changes, after all attempts.
    async fn change(&self) {
        advance(Duration::from_millis(1)).await;
        self.observer.waiting.changed("zones", PolicyChange::Revision);
    }

    fn start(&self) {
        let (observer, client) = (Arc::clone(&self.observer), self.apiserver.client());
        let requeue = Requeue { observer, pods: Arc::clone(&self.pods), wanted: self.wanted.subscribe() };
        tokio::spawn(requeue.run(async move || Ok(client.clone())));
    }

    fn count(&self, outcome: &str) -> usize {
        let text = self.observer.metrics.text();
        let name = format!("extender_gateway_requeued_pods_total{{outcome=\"{outcome}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&*name)?.parse().ok()).unwrap_or(0)
    }
}

/// Lets this much time pass, in small steps.
async fn pass(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        for _ in 0..200 {
            yield_now().await;
        }
        advance(Duration::from_millis(10)).await;
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn nothing_is_written_while_nothing_waits() {
    let scene = Scene::new(0);
    scene.start();
    scene.change().await;
    scene.observer.waiting.all_changed();
    pass(SECOND).await;
    assert_eq!(scene.apiserver.pods(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn when_a_pod_that_was_not_bound_ceases_to_count_those_rejected_meanwhile_are_tried_again() {
    let scene = Scene::new(1);
    scene.start();
    advance(SECOND).await;
    let json = br#"{"metadata": {"name": "p", "namespace": "shop", "uid": "p"}, "spec": {"containers": []}}"#;
    let assumed = scene.pods.assume(&extender_gateway_object::pod::parse(json).unwrap(), "a").unwrap();
    let (pods, forgotten) = (Arc::clone(&scene.pods), SECOND * 90);
    tokio::spawn(async move { pods.forget_later("p", assumed, forgotten).await });
    pass(SECOND).await;
    scene.reject("meanwhile");
    pass(SECOND * 88).await;
    assert_eq!(scene.apiserver.pods(), Vec::<String>::new());
    pass(SECOND * 2).await;
    assert_eq!(scene.apiserver.pods(), ["meanwhile"]);
    // It is tried, and rejected for another cause.
    scene.reject("meanwhile");
    pass(SECOND * 30).await;
    assert_eq!(scene.apiserver.pods(), ["meanwhile"]);
}

#[tokio::test(start_paused = true)]
async fn each_pod_is_updated_once_at_a_limited_rate() {
    let scene = Scene::new(1_000);
    scene.start();
    pass(SECOND).await;
    assert_eq!(scene.apiserver.pods(), Vec::<String>::new(), "nothing has changed");
    let changed = Instant::now();
    scene.change().await;
    pass(SECOND * 15).await;
    let requests = scene.apiserver.requests.lock().clone();
    let pods: std::collections::BTreeSet<_> = requests.iter().map(|(pod, _)| pod).collect();
    assert_eq!((requests.len(), pods.len(), scene.count("ok")), (1_000, 1_000, 1_000));
    let last = requests.last().unwrap().1 - changed;
    assert!(last > SECOND * 9 && last < SECOND * 11, "{last:?}");
    assert!(scene.apiserver.most_at_once.load(Ordering::Relaxed) <= BATCH);
}

#[tokio::test(start_paused = true)]
async fn a_change_while_a_pod_is_updated_is_not_lost() {
    let scene = Scene::new(1);
    *scene.apiserver.takes.lock() = SECOND;
    scene.start();
    scene.change().await;
    pass(SECOND / 2).await;
    // kube-scheduler may have tried the pod already.
    scene.change().await;
    pass(SECOND * 20).await;
    assert_eq!(scene.apiserver.pods().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn it_runs_while_the_configuration_wants_it() {
    let scene = Scene::new(1);
    scene.wanted.send_replace(false);
    scene.start();
    scene.change().await;
    pass(SECOND).await;
    assert_eq!(scene.apiserver.pods().len(), 0);
    scene.wanted.send_replace(true);
    pass(SECOND).await;
    assert_eq!(scene.apiserver.pods().len(), 1, "it still waits");
    scene.wanted.send_replace(false);
    pass(SECOND * 20).await;
    scene.change().await;
    pass(SECOND).await;
    assert_eq!(scene.apiserver.pods().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn credentials_that_cannot_be_read_are_read_again() {
    let scene = Scene::new(1);
    let (observer, client) = (Arc::clone(&scene.observer), scene.apiserver.client());
    let requeue = Requeue { observer, pods: Arc::default(), wanted: scene.wanted.subscribe() };
    let attempts = AtomicUsize::new(0);
    let task = tokio::spawn(requeue.run(async move || match attempts.fetch_add(1, Ordering::Relaxed) {
        0 => Err(ConnectError::Credentials(kube::Error::LinesCodecMaxLineLengthExceeded)),
        _ => Ok(client.clone()),
    }));
    scene.change().await;
    pass(SECOND).await;
    assert!(!task.is_finished() && scene.observer.waiting.requeue_health.failing().is_some());
    pass(RETRY).await;
    assert_eq!(scene.count("ok"), 1);
    assert!(scene.observer.waiting.requeue_health.failing().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_gone_no_longer_waits() {
    for status in [404, 409] {
        let scene = Scene::new(2);
        scene.apiserver.statuses.lock().insert("web-0".to_owned(), status);
        scene.start();
        scene.change().await;
        pass(SECOND).await;
        assert_eq!((scene.count("ok"), scene.count("gone"), scene.observer.waiting.len()), (1, 1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_updated_does_not_hold_up_the_others() {
    let scene = Scene::new(30);
    let rejected = (0..25).map(|number| (format!("web-{number}"), 422));
    scene.apiserver.statuses.lock().extend(rejected);
    scene.start();
    scene.change().await;
    pass(SECOND * 2).await;
    assert_eq!((scene.count("ok"), scene.count("failed")), (5, 25));
    assert!(scene.observer.waiting.requeue_health.failing().is_none());
}

#[tokio::test(start_paused = true)]
async fn pods_whose_updates_cause_errors_of_the_apiserver_come_after_the_others() {
    let scene = Scene::new(25);
    // As by a webhook that is down and has to be asked about some pods.
    let failing = (0..25).map(|number| (format!("web-{number}"), 500));
    scene.apiserver.statuses.lock().extend(failing);
    advance(SECOND).await;
    (0..5).for_each(|number| scene.reject(&format!("job-{number}")));
    scene.start();
    scene.change().await;
    pass(RETRY * 2).await;
    assert_eq!(scene.count("ok"), 5);
    scene.apiserver.statuses.lock().clear();
    pass(RETRY * 2).await;
    assert_eq!(scene.count("ok"), 30);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_over_when_no_pod_is_left_unless_access_is_missing() {
    for (status, remains) in [(403, true), (503, false)] {
        let scene = Scene::new(1);
        *scene.apiserver.of_all.lock() = Some(status);
        scene.start();
        scene.change().await;
        pass(SECOND).await;
        let health = &scene.observer.waiting.requeue_health;
        assert!(health.failing().is_some());
        scene.observer.waiting.remove("uid-web-0");
        pass(RETRY).await;
        assert_eq!(health.failing().is_some(), remains, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_all_is_reported_and_tried_again() {
    for status in [401, 403, 429, 500, 503] {
        let scene = Scene::new(2);
        *scene.apiserver.of_all.lock() = Some(status);
        scene.start();
        scene.change().await;
        pass(SECOND).await;
        assert_eq!(scene.count("failed"), 2, "{status}: no second attempt yet");
        let (_, why) = scene.observer.waiting.requeue_health.failing().expect("it fails");
        assert!(why.starts_with("cannot set condition extender-gateway.io/Requeued of pods: no"), "{why}");
        assert_eq!(why.contains("resources: [pods/status], verbs: [patch]"), status == 403, "{why}");
        *scene.apiserver.of_all.lock() = None;
        pass(RETRY).await;
        assert_eq!(scene.count("ok"), 2, "{status}");
        assert!(scene.observer.waiting.requeue_health.failing().is_none());
    }
}
