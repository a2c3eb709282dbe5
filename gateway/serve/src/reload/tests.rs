//! When a changed file is tried.

use std::{
    fs,
    path::Path,
    sync::{Arc, mpsc},
};

use extender_gateway_observe::{Metrics, Observer, samples};
use extender_gateway_pace::cadences::Cadences;
use futures_util::FutureExt;
use tokio::{
    runtime,
    task::spawn_blocking,
    time::{Instant, advance},
};

use super::{Assembly, Content, RETRY, SeenContent, parsed};

/// For each check of the file's content, whether it is tried; if so, it is used.
fn tried(checks: &[Option<&str>]) -> Vec<bool> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let content = |text: &str| {
        fs::write(file.path(), text).unwrap();
        Content::read(file.path()).unwrap()
    };
    let mut seen = SeenContent::default();
    let check = |text: Option<&str>| {
        let due = seen.check(text.map(content));
        if due {
            seen.tried = seen.last.clone();
        }
        due
    };
    checks.iter().copied().map(check).collect()
}

#[test]
fn a_file_is_tried_once_it_has_rested() {
    assert_eq!(tried(&[Some("a"), Some("a"), Some("a")]), [false, true, false]);
    assert_eq!(tried(&[Some("a"), Some("ab"), Some("abc"), Some("abc")]), [false, false, false, true]);
    assert_eq!(tried(&[Some("a"), None, Some("a"), Some("a")]), [false, false, false, true]);
    assert_eq!(tried(&[None, None]), [false, false]);
    assert_eq!(tried(&[None; 7]), [false, false, false, false, true, false, false], "it is gone");
    assert_eq!(
        tried(&[Some("a"), Some("a"), Some("b"), Some("a"), Some("a")]),
        [false, true, false, false, false]
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_postponed_is_tried_again_once_its_time_has_come() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let content = || Some(Content::read(file.path()).unwrap());
    let mut seen = SeenContent {
        last: content(),
        tried: content(),
        retry_at: Some(Instant::now() + RETRY),
        unreadable: 0,
    };
    assert!(!seen.check(content()));
    advance(RETRY).await;
    assert!(!seen.check(None), "a file that is gone is not tried");
    assert_eq!([seen.check(content()), seen.check(content())], [false, true]);
    seen.retry_at = None;
    assert!(!seen.check(content()));
}

/// The result of what needs a thread that may block.
fn on_such_a_thread<T>(work: impl Future<Output = T>) -> T {
    let runtime =
        runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (free, occupied) = mpsc::channel::<()>();
        let only = spawn_blocking(move || occupied.recv());
        let mut work = Box::pin(work);
        assert!((&mut work).now_or_never().is_none(), "it waits for that thread");
        drop(free);
        let result = work.await;
        only.await.unwrap().unwrap_err();
        result
    })
}

#[test]
fn a_configuration_is_parsed_and_rendered_on_a_thread_that_may_block() {
    let content = Content::read(Path::new("../examples/gateway.yaml"));
    let config = on_such_a_thread(parsed("../examples/gateway.yaml".into(), content)).unwrap();
    assert!(!config.backends.is_empty());
    let served = on_such_a_thread(async {
        let config = samples::config("- {name: a, url: 'http://a:1', mode: Disabled, filter: {}}\n");
        let observer = Arc::new(Observer::new(Arc::new(Metrics::new()), 1 << 20));
        let mut assembly = Assembly::new(&config, "test".into(), observer, Cadences::default());
        assembly.serve(&config).await.unwrap()
    });
    assert_eq!(served.summary.settings["backends.a.mode"], "Disabled");
}
