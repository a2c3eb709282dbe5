//! `GET /metrics` in Prometheus' text format, on an address of its own. Five metrics need no library.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    fmt::{self, Write as _},
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::{sleep, timeout},
};

use crate::{Backend, answer::is_ready, table::Tables};

/// Upper bounds of the buckets of the histogram, in seconds.
const BUCKETS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];

/// The connections at a time. Prometheus has one.
const MAX_CONNECTIONS: usize = 16;

/// How long a request and its response may take, and how many bytes the head of the request may have.
const MAX_TIME: Duration = Duration::from_secs(5);
const MAX_HEAD_BYTES: usize = 8 << 10;

/// The pause after a connection could not be accepted, most often for lack of file descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What is counted of calls, and where it is shown. Clones are the same metrics.
#[derive(Clone, Debug)]
pub(crate) struct Metrics(Arc<Scraped>);

#[derive(Debug)]
struct Scraped {
    listener: TcpListener,
    address: SocketAddr,
    counts: Mutex<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// By verb and code.
    calls: BTreeMap<(String, String), u64>,
    durations: BTreeMap<String, Histogram>,
}

#[derive(Debug, Default)]
struct Histogram {
    /// The calls that took at most as long as the bucket's bound.
    buckets: [u64; BUCKETS.len()],
    count: u64,
    seconds: f64,
}

impl Metrics {
    pub(crate) async fn bind(address: SocketAddr) -> io::Result<Self> {
        let right = |error: io::Error| {
            let text = format!("{error}; set another --metrics-address, or stop the process that uses it");
            io::Error::new(error.kind(), text)
        };
        let listener = TcpListener::bind(address).await.map_err(right)?;
        let address = listener.local_addr()?;
        Ok(Self(Arc::new(Scraped { listener, address, counts: Mutex::default() })))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.0.address
    }

    /// A call with this verb and result.
    pub(crate) fn count(&self, verb: String, code: String, taken: Duration) {
        // Only sums are changed under the lock.
        let mut counts = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.durations.entry(verb.clone()).or_default().observe(taken.as_secs_f64());
        *counts.calls.entry((verb, code)).or_default() += 1;
    }

    /// Answers until it is dropped.
    pub(crate) async fn serve(&self, backend: &Backend, tables: &Tables) -> Infallible {
        let mut connections = JoinSet::new();
        loop {
            while connections.len() >= MAX_CONNECTIONS {
                drop(connections.join_next().await);
            }
            match self.0.listener.accept().await {
                Ok((stream, _)) => {
                    let (metrics, backend, tables) = (self.clone(), backend.clone(), tables.clone());
                    let text =
                        move || metrics.text(backend.in_use().iter().all(|policy| is_ready(policy)), &tables);
                    drop(connections.spawn(timeout(MAX_TIME, exchange(stream, text))));
                }
                Err(_) => sleep(PAUSE).await,
            }
            while connections.try_join_next().is_some() {}
        }
    }

    fn text(&self, is_ready: bool, tables: &Tables) -> String {
        let mut text = self.0.counts.lock().unwrap_or_else(PoisonError::into_inner).to_string();
        let (tables, nodes) = tables.size();
        for (name, help, value) in [
            ("table_nodes", "Nodes in the tables that gateways keep here.", nodes),
            ("tables", "Tables of nodes that gateways keep here.", tables),
            ("ready", "Whether the policies in use are ready.", is_ready.into()),
        ] {
            _ = writeln!(text, "{}extender_policy_{name} {value}", head(name, "gauge", help));
        }
        text
    }
}

impl Histogram {
    fn observe(&mut self, seconds: f64) {
        self.count += 1;
        self.seconds += seconds;
        for (bucket, _) in self.buckets.iter_mut().zip(BUCKETS).filter(|(_, bound)| seconds <= *bound) {
            *bucket += 1;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&head("calls_total", "counter", "Calls, by verb and gRPC code."))?;
        for ((verb, code), count) in &self.calls {
            writeln!(f, "extender_policy_calls_total{{verb=\"{verb}\",code=\"{code}\"}} {count}")?;
        }
        f.write_str(&head("call_duration_seconds", "histogram", "Duration of calls, by verb."))?;
        for (verb, Histogram { buckets, count, seconds }) in &self.durations {
            let name = "extender_policy_call_duration_seconds";
            for (bound, calls) in BUCKETS.iter().zip(buckets) {
                writeln!(f, "{name}_bucket{{verb=\"{verb}\",le=\"{bound}\"}} {calls}")?;
            }
            writeln!(f, "{name}_bucket{{verb=\"{verb}\",le=\"+Inf\"}} {count}")?;
            writeln!(f, "{name}_sum{{verb=\"{verb}\"}} {seconds}\n{name}_count{{verb=\"{verb}\"}} {count}")?;
        }
        Ok(())
    }
}

fn head(name: &str, kind: &str, help: &str) -> String {
    format!("# HELP extender_policy_{name} {help}\n# TYPE extender_policy_{name} {kind}\n")
}

/// Answers one request, and closes the connection.
async fn exchange(mut stream: TcpStream, text: impl FnOnce() -> String) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > MAX_HEAD_BYTES || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let is_ours = [&b"GET /metrics "[..], b"GET /metrics?"].iter().any(|begin| request.starts_with(begin));
    let (status, body) =
        if is_ours { ("200 OK", text()) } else { ("404 Not Found", "GET /metrics\n".to_owned()) };
    let mut response = format!("HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\n");
    _ = write!(response, "Content-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len());
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_the_calls_that_took_at_most_its_bound() {
        let mut counts = Counts::default();
        let duration = counts.durations.entry("filter".to_owned()).or_default();
        for seconds in [0.0005, 0.003, 0.5, 2.0] {
            duration.observe(seconds);
        }
        let name = "extender_policy_call_duration_seconds";
        let bounds = [
            "0.0005", "0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1", "+Inf",
        ];
        let calls = [1, 1, 1, 2, 2, 2, 2, 2, 2, 3, 3, 4];
        let buckets = bounds.iter().zip(calls);
        let mut expected: Vec<_> = buckets
            .map(|(le, calls)| format!("{name}_bucket{{verb=\"filter\",le=\"{le}\"}} {calls}"))
            .collect();
        expected.push(format!("{name}_sum{{verb=\"filter\"}} 2.5035"));
        expected.push(format!("{name}_count{{verb=\"filter\"}} 4"));
        let text = counts.to_string();
        let lines: Vec<_> = text.lines().filter(|line| line.starts_with(name)).collect();
        assert_eq!(lines, expected);
    }
}
