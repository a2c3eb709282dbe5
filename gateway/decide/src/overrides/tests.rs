use std::path::Path;

use extender_gateway_settings::Config;

use super::*;

const MINUTE: Duration = Duration::from_mins(1);

fn overrides() -> Arc<Overrides> {
    Arc::new(Overrides::new(Arc::default(), mpsc::channel(1).0))
}

fn racks() -> OverrideTarget {
    OverrideTarget::Backend("racks".to_owned())
}

fn because(reason: &str) -> OverrideCause<'_> {
    OverrideCause { reason, by: "ann at 10.0.0.1" }
}

/// Lets the tasks run that are due.
async fn settle() {
    tokio::time::advance(Duration::from_millis(1)).await;
    tokio::task::yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn an_override_ends_by_itself() {
    let overrides = overrides();
    overrides.set(racks(), Mode::Shadow, MINUTE, because("bad rule"));
    assert_eq!((overrides.mode_of("racks"), overrides.mode_of("quota")), (Some(Mode::Shadow), None));
    tokio::time::advance(MINUTE.checked_sub(Duration::from_millis(1)).unwrap()).await;
    assert_eq!(overrides.mode_of("racks"), Some(Mode::Shadow));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert_eq!((overrides.mode_of("racks"), overrides.all()), (None, Vec::new()));
    settle().await;
    assert!(overrides.active.load().is_empty(), "it takes no memory");
}

#[tokio::test(start_paused = true)]
async fn a_later_override_of_a_target_replaces_the_earlier_one() {
    let overrides = overrides();
    overrides.set(racks(), Mode::Shadow, MINUTE, because("bad rule"));
    tokio::time::advance(MINUTE / 2).await;
    overrides.set(racks(), Mode::Disabled, MINUTE, because("it is also slow"));
    tokio::time::advance(MINUTE / 2).await;
    settle().await;
    assert_eq!(overrides.mode_of("racks"), Some(Mode::Disabled), "the first one's end is not its end");
    assert_eq!(overrides.all().len(), 1);
    tokio::time::advance(MINUTE / 2).await;
    assert_eq!(overrides.mode_of("racks"), None);
}

#[tokio::test(start_paused = true)]
async fn a_backends_own_override_precedes_that_of_all() {
    let overrides = overrides();
    overrides.set(OverrideTarget::All, Mode::Disabled, 2 * MINUTE, because("outage"));
    overrides.set(racks(), Mode::Enforce, MINUTE, because("this one is fine"));
    let modes = |overrides: &Overrides| ["racks", "quota"].map(|name| overrides.mode_of(name));
    assert_eq!(modes(&overrides), [Some(Mode::Enforce), Some(Mode::Disabled)]);
    tokio::time::advance(MINUTE).await;
    assert_eq!(modes(&overrides), [Some(Mode::Disabled); 2]);
    tokio::time::advance(MINUTE).await;
    assert_eq!(modes(&overrides), [None; 2]);
}

#[tokio::test(start_paused = true)]
async fn an_override_can_be_ended_early() {
    let overrides = overrides();
    overrides.set(racks(), Mode::Shadow, MINUTE, because("bad rule"));
    overrides.reset(&OverrideTarget::All, "ann");
    assert_eq!(overrides.mode_of("racks"), Some(Mode::Shadow), "it has its own");
    for _ in 0..2 {
        overrides.reset(&racks(), "ann");
        assert_eq!(overrides.mode_of("racks"), None);
    }
}

/// The settings of a backend with this limit.
fn limited(limit: &str) -> BackendSettings {
    let yaml = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\nnodes: {{source: NamesOnly}}\n\
         backends:\n- {{name: racks, url: 'http://racks:1', filter: {{}}, maxRejectShare: {limit}}}\n"
    );
    Config::parse(&yaml, Path::new(".")).unwrap().backends.remove(0)
}

/// Twenty decisions in ten minutes, about as many pods, that reject this many of 100 nodes each.
async fn decide(overrides: &Arc<Overrides>, settings: &BackendSettings, rejected: u64, pods: usize) {
    for decision in 0..20 {
        let pod = (decision % pods).to_string();
        overrides.decided(settings, FilterDecision { pod: &pod, nodes: 100, rejected });
        tokio::time::advance(MINUTE / 2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_share_above_the_limit_for_a_while_is_a_condition() {
    let settings = limited("{share: 0.9, window: 10m}");
    for (rejected, pods, is_excess) in [(90, 20, false), (91, 20, true), (91, 1, false), (100, 2, true)] {
        let overrides = overrides();
        decide(&overrides, &settings, rejected, pods).await;
        let excess = overrides.excessive_rejections(&settings);
        assert_eq!(excess.is_some(), is_excess, "{rejected} of 100, {pods} pods");
        assert_eq!(overrides.mode_of("racks"), None, "it is reported only");
    }
}

#[tokio::test(start_paused = true)]
async fn a_burst_is_no_condition_and_an_excess_ends() {
    let settings = limited("{share: 0.9, window: 10m}");
    let overrides = overrides();
    for pod in 0..50 {
        overrides.decided(&settings, FilterDecision { pod: &pod.to_string(), nodes: 100, rejected: 100 });
    }
    assert_eq!(overrides.excessive_rejections(&settings), None, "within a moment");
    decide(&overrides, &settings, 100, 20).await;
    assert!(overrides.excessive_rejections(&settings).is_some());
    decide(&overrides, &settings, 10, 20).await;
    assert_eq!(overrides.excessive_rejections(&settings), None, "it rejects few");
    decide(&overrides, &settings, 100, 20).await;
    tokio::time::advance(10 * MINUTE).await;
    assert_eq!(overrides.excessive_rejections(&settings), None, "nothing is known of the present");
    decide(&overrides, &settings, 100, 20).await;
    assert!(overrides.excessive_rejections(&settings).is_some(), "again");
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_rejects_too_much_goes_to_shadow_for_a_while() {
    let settings = limited("{share: 0.9, window: 10m, onExcess: Shadow, shadowFor: 40m}");
    let overrides = overrides();
    decide(&overrides, &settings, 100, 20).await;
    let found = overrides.find("racks").unwrap();
    assert_eq!(found.mode, Mode::Shadow);
    assert_eq!(found.reason, "it rejected 100 % of the nodes, more than maxRejectShare 0.9");
    tokio::time::advance(40 * MINUTE).await;
    assert_eq!(overrides.mode_of("racks"), None);
    overrides.decided(&settings, FilterDecision { pod: "a", nodes: 100, rejected: 100 });
    assert_eq!(overrides.mode_of("racks"), None, "it is judged from the beginning");
    decide(&overrides, &settings, 100, 20).await;
    assert_eq!(overrides.mode_of("racks"), Some(Mode::Shadow), "it is still bad");
}

#[tokio::test(start_paused = true)]
async fn after_an_operator_has_enforced_it_a_backend_is_judged_again() {
    let settings = limited("{share: 0.9, window: 10m, onExcess: Shadow, shadowFor: 40m}");
    for target in [racks(), OverrideTarget::All] {
        let overrides = overrides();
        overrides.set(target.clone(), Mode::Enforce, 20 * MINUTE, because("it is right"));
        decide(&overrides, &settings, 100, 20).await;
        assert_eq!(overrides.mode_of("racks"), Some(Mode::Enforce), "as the operator says");
        decide(&overrides, &settings, 100, 20).await;
        overrides.reset(&target, "ann");
        decide(&overrides, &settings, 100, 20).await;
        assert_eq!(overrides.mode_of("racks"), Some(Mode::Shadow), "{target}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_beginning_and_the_end_are_reported() {
    let (sender, mut changes) = mpsc::channel(2);
    let overrides = Arc::new(Overrides::new(Arc::default(), sender));
    overrides.set(racks(), Mode::Shadow, MINUTE, because("bad rule"));
    tokio::time::advance(MINUTE).await;
    settle().await;
    let (begin, end) = (changes.recv().await.unwrap(), changes.recv().await.unwrap());
    let until = begin.at.checked_add(MINUTE).unwrap();
    assert_eq!(begin.text, format!("backend racks: Shadow until {until:.0} by ann at 10.0.0.1: bad rule"));
    assert_eq!(
        (end.text.as_str(), begin.is_end, end.is_end),
        ("backend racks: the mode is as configured again", false, true)
    );
    // Nobody takes these: the override works nevertheless.
    for _ in 0..3 {
        overrides.set(OverrideTarget::All, Mode::Disabled, MINUTE, because("all are bad"));
    }
    assert_eq!(overrides.mode_of("racks"), Some(Mode::Disabled));
}
