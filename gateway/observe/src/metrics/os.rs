//! The metrics of every process, under the names of the Prometheus client libraries.

use std::{fmt, time::Duration};

use procfs::{ProcResult, WithCurrentSystemInfo, process::LimitValue, process::Process};
use prometheus_client::metrics::{counter::ConstCounter, gauge::ConstGauge};

use super::page::Page;

/// What the system knows about this process.
struct Usage {
    cpu: Duration,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_descriptors: usize,
    /// `None`: unlimited.
    most_descriptors: Option<u64>,
    /// Unix time in seconds.
    started: f64,
}

impl Usage {
    fn read() -> ProcResult<Self> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let ticks = procfs::ticks_per_second();
        #[expect(clippy::cast_precision_loss, reason = "there are not that many ticks")]
        let seconds = |count: u64| count as f64 / ticks as f64;
        let limit = process.limits()?.max_open_files.soft_limit;
        #[expect(clippy::cast_precision_loss, reason = "a time since 1970 in seconds")]
        let booted = procfs::boot_time_secs()? as f64;
        Ok(Self {
            cpu: Duration::from_secs_f64(seconds(stat.utime + stat.stime)),
            resident_bytes: stat.rss_bytes().get(),
            virtual_bytes: stat.vsize,
            open_descriptors: process.fd_count()?,
            most_descriptors: match limit {
                LimitValue::Value(limit) => Some(limit),
                LimitValue::Unlimited => None,
            },
            started: booted + seconds(stat.starttime),
        })
    }
}

/// Writes them; nothing where `/proc` cannot be read.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub(super) fn write(page: &mut Page<'_>) -> fmt::Result {
    let Ok(usage) = Usage::read() else { return Ok(()) };
    page.single(
        "process_cpu_seconds_total",
        "Total user and system CPU time spent",
        &ConstCounter::new(usage.cpu.as_secs_f64()),
    )?;
    let gauges = [
        ("process_resident_memory_bytes", "Resident memory size", Some(usage.resident_bytes as f64)),
        ("process_virtual_memory_bytes", "Virtual memory size", Some(usage.virtual_bytes as f64)),
        ("process_open_fds", "Number of open file descriptors", Some(usage.open_descriptors as f64)),
        (
            "process_max_fds",
            "Maximum number of open file descriptors",
            usage.most_descriptors.map(|most| most as f64),
        ),
        ("process_start_time_seconds", "Start time of the process since the Unix epoch", Some(usage.started)),
    ];
    for (name, help, value) in gauges {
        if let Some(value) = value {
            page.single(name, help, &ConstGauge::new(value))?;
        }
    }
    Ok(())
}
