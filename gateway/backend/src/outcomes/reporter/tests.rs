use std::path::Path;

use extender_gateway_observe::Metrics;
use extender_gateway_settings::BackendName;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::{super::AskedPod, *};

fn name() -> BackendName {
    let yaml = "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\nnodes: {source: Request}\n\
                backends: [{name: racks, url: 'http://127.0.0.1:1', filter: {}}]\n";
    extender_gateway_settings::Config::parse(yaml, Path::new(".")).unwrap().backends.remove(0).name
}

impl Outcomes {
    /// An attempt to place this pod ends.
    fn end(&self, number: usize) {
        let uid = format!("u-{number}");
        self.is_used.store(true, std::sync::atomic::Ordering::Relaxed);
        self.change(|tracked| {
            tracked.begin(AskedPod { call: "f", namespace: "shop", name: "web", uid: &uid });
            tracked.end_request(&uid);
            tracked.not_bound(&uid, None);
        });
    }
}

/// When requests are sent, in milliseconds, and with how many outcomes. Of those with these numbers the answer is a failure.
async fn requests(failing: &[usize], events: impl AsyncFnOnce(&Outcomes)) -> Vec<(u128, usize)> {
    let (outcomes, reporter) = Outcomes::new(&name(), &Arc::new(Metrics::new()));
    let (began, seen) = (Instant::now(), Mutex::new(Vec::new()));
    let send = |failures: usize| {
        let batch = outcomes.tracked.lock().pending.batch(usize::MAX);
        let (outcomes, seen) = (&outcomes, &seen);
        async move {
            let Some(batch) = batch else { return Some(Sent::All) };
            let number = seen.lock().len();
            seen.lock().push((began.elapsed().as_millis(), batch.count));
            sleep(Duration::from_millis(5)).await;
            let is_failed = failing.contains(&number);
            assert!(failures == 0 || failing.contains(&(number - 1)));
            if is_failed {
                return Some(Sent::Again);
            }
            outcomes.remove(&batch);
            Some(Sent::More)
        }
    };
    let sending = timeout(Duration::from_mins(1), deliver(&reporter.touched, send));
    let (ended, ()) = tokio::join!(sending, events(&outcomes));
    assert!(ended.is_err(), "it goes on");
    seen.into_inner()
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_collected_for_a_moment_and_sent_in_order() {
    let sent = requests(&[], async |outcomes| {
        sleep(Duration::from_secs(1)).await;
        outcomes.end(0);
        sleep(Duration::from_millis(40)).await;
        (1..300).for_each(|number| outcomes.end(number));
        // During the second request.
        sleep(Duration::from_millis(17)).await;
        outcomes.end(300);
    });
    assert_eq!(sent.await, [(1050, 256), (1055, 44), (1060, 1)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_acknowledged_is_sent_again_with_what_has_come_meanwhile() {
    let sent = requests(&[0, 1, 3], async |outcomes| {
        outcomes.end(0);
        sleep(Duration::from_millis(150)).await;
        outcomes.end(1);
        sleep(Duration::from_secs(1)).await;
        outcomes.end(2);
    });
    // The pauses begin anew after an acknowledgment.
    assert_eq!(sent.await, [(50, 1), (105, 1), (210, 2), (1200, 1), (1255, 1)]);
}

#[tokio::test(start_paused = true)]
async fn the_reporter_ends_with_its_backend() {
    for is_pending in [false, true] {
        let (outcomes, reporter) = Outcomes::new(&name(), &Arc::new(Metrics::new()));
        let running = tokio::spawn(reporter.run());
        if is_pending {
            outcomes.end(0);
        }
        sleep(Duration::from_mins(1)).await;
        assert!(!running.is_finished());
        drop(outcomes);
        timeout(Duration::from_secs(5), running).await.unwrap().unwrap();
    }
}
