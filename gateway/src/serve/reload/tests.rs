//! When a changed file is tried.

use std::{fs, path::Path, sync::mpsc};

use futures_util::FutureExt;
use tokio::{
    runtime,
    task::spawn_blocking,
    time::{Instant, advance},
};

use super::{Content, RETRY, SeenContent, parsed};

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

#[test]
fn a_configuration_is_parsed_on_a_thread_that_may_block() {
    let runtime = runtime::Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (free, occupied) = mpsc::channel::<()>();
        let only = spawn_blocking(move || occupied.recv());
        let content = Content::read(Path::new("examples/gateway.yaml"));
        let mut parsed = Box::pin(parsed("examples/gateway.yaml".into(), content));
        assert!((&mut parsed).now_or_never().is_none(), "it waits for that thread");
        drop(free);
        assert!(!parsed.await.unwrap().backends.is_empty());
        only.await.unwrap().unwrap_err();
    });
}
