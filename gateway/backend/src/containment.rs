//! Keeps a panic in code that reads what a backend sends to that backend: it becomes a [`BackendFailure`], is counted,
//! and is handled like any other failure. The process and the other backends go on.

use std::{
    any::Any,
    panic::{AssertUnwindSafe, catch_unwind},
};

use extender_gateway_core::{BackendFailure, FailureKind};
use extender_gateway_observe::Metrics;
use futures_util::FutureExt;

/// Runs `work`, and turns a panic in it into a failure.
///
/// State that `work` shares must be consistent at each of its suspension points.
pub(super) async fn contained<T, E: From<BackendFailure>>(
    metrics: &Metrics,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|panic| Err(panicked(metrics, panic.as_ref()).into()))
}

/// The same for work that waits for nothing. A future that is not needed would be part of the future of each call.
pub(super) fn contained_now<T>(
    metrics: &Metrics,
    work: impl FnOnce() -> Result<T, BackendFailure>,
) -> Result<T, BackendFailure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| Err(panicked(metrics, panic.as_ref())))
}

/// Counts a panic. The panic hook has already logged its location.
pub(super) fn panicked(metrics: &Metrics, panic: &(dyn Any + Send)) -> BackendFailure {
    metrics.panicked();
    let message = panic.downcast_ref::<&str>().copied();
    let message = message.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let message = message.unwrap_or("no message");
    let detail = format!("internal error of the gateway, please report it: {message}");
    BackendFailure::new(FailureKind::Internal, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_failure_and_counted() {
        let metrics = Metrics::new();
        let fine: Result<u8, BackendFailure> = contained(&metrics, async { Ok(7) }).await;
        assert_eq!(fine, Ok(7));
        let panics: Result<u8, BackendFailure> =
            contained(&metrics, async { panic!("position {}", 9) }).await;
        let failure = panics.unwrap_err();
        assert_eq!(contained_now::<u8>(&metrics, || panic!("position {}", 9)), Err(failure.clone()));
        assert_eq!(failure.kind, FailureKind::Internal);
        assert_eq!(failure.detail, "internal error of the gateway, please report it: position 9");
        assert!(metrics.text().contains("extender_gateway_panics_total 2\n"));
    }
}
