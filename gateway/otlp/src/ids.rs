//! New ids: random, from a thread-local generator that the system seeds once, so that an id takes no lock and no
//! system call.

use opentelemetry::trace::{SpanId, TraceId};
use opentelemetry_sdk::trace::{IdGenerator as _, RandomIdGenerator};

/// An id for a new trace; never the invalid one.
pub fn trace() -> TraceId {
    unlike(&TraceId::INVALID, || RandomIdGenerator::default().new_trace_id())
}

/// An id for a new span; never the invalid one.
pub fn span() -> SpanId {
    unlike(&SpanId::INVALID, || RandomIdGenerator::default().new_span_id())
}

fn unlike<T: PartialEq>(invalid: &T, draw: impl Fn() -> T) -> T {
    loop {
        let drawn = draw();
        if drawn != *invalid {
            return drawn;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, collections::HashSet, thread};

    use super::*;

    #[test]
    fn no_two_threads_draw_the_same() {
        let draw = || (0..1000).map(|_| (trace(), span())).collect::<Vec<_>>();
        let threads: Vec<_> = (0..4).map(|_| thread::spawn(draw)).collect();
        let drawn: Vec<_> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(drawn.iter().map(|(trace, _)| *trace).collect::<HashSet<_>>().len(), 4000);
        assert_eq!(drawn.iter().map(|(_, span)| *span).collect::<HashSet<_>>().len(), 4000);
    }

    #[test]
    fn an_invalid_one_is_drawn_again() {
        let draws = Cell::new(0);
        let draw = || {
            draws.set(draws.get() + 1);
            u64::from(draws.get() > 2)
        };
        assert_eq!(unlike(&0, draw), 1);
        assert_eq!(draws.get(), 3);
    }
}
