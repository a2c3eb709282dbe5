//! Faults for tests of the suite: what passes between the gateway and its neighbors is changed, as a gateway with a bug would
//! have sent or understood it.

use std::{fmt, sync::Arc};

use bytes::Bytes;
use serde_json::Value;

use crate::backend::Act;

type Changed<T> = Arc<dyn Fn(&str, T) -> T + Send + Sync>;

/// A bug of a gateway. The default has none.
#[derive(Clone, Default)]
pub struct Fault {
    request: Option<Changed<Bytes>>,
    answer: Option<Changed<Act>>,
    reply: Option<Changed<Value>>,
}

impl Fault {
    /// Changes what backends are sent: by the method, such as `Filter`, and the message.
    #[must_use]
    pub fn in_request(change: impl Fn(&str, Bytes) -> Bytes + Send + Sync + 'static) -> Self {
        Self { request: Some(Arc::new(change)), ..Self::default() }
    }

    /// Changes what backends answer.
    #[must_use]
    pub fn in_answer(change: impl Fn(&str, Act) -> Act + Send + Sync + 'static) -> Self {
        Self { answer: Some(Arc::new(change)), ..Self::default() }
    }

    /// Changes what kube-scheduler is answered: by the path, such as `/filter`, and the body.
    #[must_use]
    pub fn in_reply(change: impl Fn(&str, Value) -> Value + Send + Sync + 'static) -> Self {
        Self { reply: Some(Arc::new(change)), ..Self::default() }
    }

    pub(crate) fn request(&self, method: &str, message: Bytes) -> Bytes {
        apply(self.request.as_ref(), method, message)
    }

    pub(crate) fn answer(&self, method: &str, act: Act) -> Act {
        apply(self.answer.as_ref(), method, act)
    }

    pub(crate) fn reply(&self, path: &str, body: Value) -> Value {
        apply(self.reply.as_ref(), path, body)
    }
}

fn apply<T>(change: Option<&Changed<T>>, what: &str, value: T) -> T {
    match change {
        Some(change) => change(what, value),
        None => value,
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault").finish_non_exhaustive()
    }
}
