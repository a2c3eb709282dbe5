//! The log of the election. A thread of its own writes it: a writer that blocks, such as standard error that nobody reads,
//! must hold up no renewal and no end of the controllers.

use std::{
    sync::{
        LazyLock,
        mpsc::{SyncSender, sync_channel},
    },
    thread,
};

/// Lines that wait for the writer. More are dropped.
const MAX_WAITING: usize = 100;

type Line = Box<dyn FnOnce() + Send>;

/// Has a line written, without waiting for it.
pub(crate) fn log(line: impl FnOnce() + Send + 'static) {
    static LINES: LazyLock<SyncSender<Line>> = LazyLock::new(writer);
    drop(LINES.try_send(Box::new(line)));
}

/// Without a thread there is no log.
fn writer() -> SyncSender<Line> {
    let (lines, waiting) = sync_channel::<Line>(MAX_WAITING);
    drop(thread::Builder::new().name("election-log".to_owned()).spawn(move || {
        for line in waiting {
            line();
        }
    }));
    lines
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc::channel, time::Duration};

    use super::*;

    #[test]
    fn a_line_that_blocks_holds_up_nothing_and_the_next_ones_follow() {
        let ((unblock, blocked), (write, written)) = (channel::<()>(), channel());
        log(move || _ = blocked.recv());
        for _ in 0..2 * MAX_WAITING {
            let write = write.clone();
            log(move || write.send(()).unwrap());
        }
        drop((unblock, write));
        let written = std::iter::from_fn(|| written.recv_timeout(Duration::from_secs(10)).ok()).count();
        assert!((1..=MAX_WAITING + 1).contains(&written), "{written} lines");
    }
}
