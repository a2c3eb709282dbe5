//! What processes have cost so far, as Linux counts it: processor time and context switches.

use std::{
    fs, io,
    ops::{AddAssign, Sub},
};

use serde::Serialize;

/// Linux counts processor time in ticks of this many microseconds for every program (`USER_HZ` is 100).
const TICK_MICROSECONDS: u64 = 10_000;

/// What was used, by one process or by several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Processor time in microseconds, in user code and in the kernel.
    pub processor: u64,
    /// How often a thread went to sleep because it waited for something.
    pub voluntary_switches: u64,
    /// How often a thread was stopped because others wanted the processor.
    pub involuntary_switches: u64,
}

impl Usage {
    /// What these processes have used since they began. Threads that have ended count for processor time
    /// alone.
    pub fn of(processes: &[u32]) -> io::Result<Self> {
        let mut sum = Self::default();
        for process in processes {
            sum += Self::of_process(*process)?;
        }
        Ok(sum)
    }

    fn of_process(process: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
        let mut usage = Self { processor: ticks(&stat).unwrap_or(0) * TICK_MICROSECONDS, ..Self::default() };
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            // A thread that ends between the two looks has nothing to say.
            let Ok(status) = fs::read_to_string(thread?.path().join("status")) else { continue };
            usage.voluntary_switches += counter(&status, "voluntary_ctxt_switches:");
            usage.involuntary_switches += counter(&status, "nonvoluntary_ctxt_switches:");
        }
        Ok(usage)
    }
}

/// utime and stime of `/proc/PID/stat`. The program's name before them may hold blanks and parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11);
    Some(times.next()?.parse::<u64>().ok()? + times.next()?.parse::<u64>().ok()?)
}

fn counter(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.processor += other.processor;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
    }
}

impl Sub for Usage {
    type Output = Self;

    /// A thread that has ended takes its switches with it, so that a difference could be negative.
    fn sub(self, earlier: Self) -> Self {
        Self {
            processor: self.processor.saturating_sub(earlier.processor),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn times_are_found_behind_any_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 10 0 0 0 31 11 0 0 20 0 5 0 99 1 1";
        assert_eq!(ticks(stat), Some(42));
    }

    #[test]
    fn the_two_kinds_of_switches_are_told_apart() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t5\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(counter(status, "voluntary_ctxt_switches:"), 5);
        assert_eq!(counter(status, "nonvoluntary_ctxt_switches:"), 3);
    }

    #[test]
    fn this_process_has_used_something() {
        let usage = Usage::of(&[process::id()]).unwrap();
        assert!(usage.voluntary_switches + usage.involuntary_switches > 0, "{usage:?}");
        assert_eq!(usage - usage, Usage::default());
    }
}
