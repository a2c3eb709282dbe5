//! The cost of processes so far, as Linux counts it: processor time and context switches.

use std::{
    fs, io,
    ops::{AddAssign, Sub},
};

use serde::Serialize;

/// The usage of one process or several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// Processor time in microseconds, in user code and in the kernel.
    pub processor: u64,
    /// How often a thread went to sleep because it waited for something.
    pub voluntary_switches: u64,
    /// How often a thread was stopped because others needed the processor.
    pub involuntary_switches: u64,
}

impl Usage {
    /// What these processes have used since they began, except threads that have ended.
    pub fn of(processes: &[u32]) -> io::Result<Self> {
        let mut sum = Self::default();
        for process in processes {
            sum += Self::of_process(*process)?;
        }
        Ok(sum)
    }

    fn of_process(process: u32) -> io::Result<Self> {
        let mut usage = Self::default();
        for thread in fs::read_dir(format!("/proc/{process}/task"))? {
            let thread = thread?.path();
            let read = |file| fs::read_to_string(thread.join(file));
            // A thread that ends between the two reads is skipped.
            let (Ok(times), Ok(status)) = (read("schedstat"), read("status")) else { continue };
            usage.processor += microseconds(&times).unwrap_or(0);
            usage.voluntary_switches += counter(&status, "voluntary_ctxt_switches:");
            usage.involuntary_switches += counter(&status, "nonvoluntary_ctxt_switches:");
        }
        Ok(usage)
    }
}

/// The time on a processor in `schedstat`, which has it in nanoseconds; `stat` counts in hundredths of a second.
fn microseconds(schedstat: &str) -> Option<u64> {
    Some(schedstat.split_whitespace().next()?.parse::<u64>().ok()? / 1000)
}

fn counter(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

/// The memory of a process, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// `VmRSS`.
    pub resident: u64,
    /// `VmHWM`, the peak of it.
    pub peak: u64,
}

impl Memory {
    /// That of a running process.
    pub fn of(process: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        let bytes = |name| {
            let value = status.lines().find_map(|line| line.strip_prefix(name))?;
            Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
        };
        let memory = bytes("VmRSS:").zip(bytes("VmHWM:"));
        let (resident, peak) = memory.ok_or_else(|| io::Error::other(format!("{process} has ended")))?;
        Ok(Self { resident, peak })
    }
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
