//! Imported extenders as a configuration of the gateway.

use std::{
    fmt::{self, Display, Formatter, Write as _},
    time::Duration,
};

use extender_gateway_settings::{DurationText, scalar};

use super::{Extender, Import, TlsValue};

/// How much longer than http-extender the gateway waits, so that the text of the extender's failure arrives.
const MARGIN: Duration = Duration::from_millis(100);
/// The longest budget of a call.
const LONGEST: Duration = Duration::from_hours(1);
/// What is left of a decision for a second call of a backend, and of a bind for the next binder, when the first call took
/// all of its time.
const SLACK: Duration = Duration::from_secs(1);
/// The part of a bind in which the gateway reads the result.
const LAST_LOOK: Duration = Duration::from_secs(1);
/// How long calls in progress may take when the gateway stops, if the configuration does not say.
const SHUTDOWN: Duration = Duration::from_secs(25);
/// The files of the gateway's certificate and of the CA of kube-scheduler's.
const TLS: &str =
    "certFile: /FILL/IN/tls.crt, keyFile: /FILL/IN/tls.key, clientCAFile: /FILL/IN/client-ca.crt";
/// What a call may take beyond its budget: its response.
const RESPONSE: Duration = Duration::from_secs(1);

/// Where kube-scheduler reaches the gateway, as far as the gateway's own address depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// From the same machine, or that is not known.
    Local,
    /// At this port from other machines, with TLS.
    RemoteTls(u16),
}

/// Displays a configuration of the gateway.
pub struct Gateway<'a> {
    import: &'a Import,
    backend_url: &'a str,
    address: Address,
}

/// Displays values for the chart.
pub struct Values<'a>(&'a Import);

impl Import {
    /// The gateway's configuration, if `extender-policies http-extender` is reached at this URL.
    pub fn gateway<'a>(&'a self, backend_url: &'a str, address: Address) -> Gateway<'a> {
        Gateway { import: self, backend_url, address }
    }

    /// The same as values of the chart, which runs `http-extender`.
    pub fn values(&self) -> Values<'_> {
        Values(self)
    }

    /// Whether one of them binds.
    pub fn binds(&self) -> bool {
        self.binders().next().is_some()
    }

    /// The budget of a decision: kube-scheduler asks extenders one after the other for filter and preempt, at once
    /// for prioritize.
    fn decision(&self) -> Duration {
        let Self { extenders, .. } = self;
        let sum = |uses: fn(&Extender) -> bool| {
            extenders.iter().filter(|extender| uses(extender)).map(Extender::limit).sum::<Duration>()
        };
        let filter = sum(|extender| extender.filter_verb.is_some());
        let preempt = sum(|extender| extender.preempt_verb.is_some());
        let prioritize = extenders.iter().filter(|extender| extender.prioritize_verb.is_some());
        let prioritize = prioritize.map(Extender::limit).max().unwrap_or_default();
        (filter.max(preempt).max(prioritize) + SLACK).min(LONGEST)
    }

    /// The budget of a bind, if one of them binds.
    fn bind(&self) -> Option<Duration> {
        let longest = self.binders().map(Extender::limit).max()?;
        Some((longest + SLACK + LAST_LOOK).min(LONGEST))
    }

    /// The time for calls in progress, if they may take longer than the default.
    fn shutdown(&self) -> Option<Duration> {
        let longest = self.bind().unwrap_or_default().max(self.decision()) + RESPONSE;
        Some(longest.min(LONGEST)).filter(|longest| *longest > SHUTDOWN)
    }

    fn binders(&self) -> impl Iterator<Item = &Extender> {
        self.extenders.iter().filter(|extender| extender.bind_verb.is_some())
    }

    /// The fields of the configuration besides `extender.address`, TLS and the backends.
    fn write_settings(&self, out: &mut String, extender: &[String]) -> fmt::Result {
        let Self { extenders, .. } = self;
        let mut fields = extender.to_vec();
        if extenders.iter().all(|extender| !extender.resources.is_empty()) {
            fields.push("calledFor: ManagedResources".to_owned());
        }
        if extenders.iter().all(|extender| extender.ignorable) {
            fields.push("ignorable: true".to_owned());
        }
        if !fields.is_empty() {
            writeln!(out, "extender: {{{}}}", fields.join(", "))?;
        }
        writeln!(out, "timeouts:\n  decision: {}", DurationText(self.decision()))?;
        if let Some(bind) = self.bind() {
            writeln!(out, "  bind: {}", DurationText(bind))?;
        }
        if let Some(shutdown) = self.shutdown() {
            let shutdown = DurationText(shutdown);
            writeln!(out, "  shutdown: {shutdown}  # terminationGracePeriodSeconds: 10 seconds more")?;
        }
        writeln!(out, "nodes: {{source: Watch}}")?;
        if extenders.iter().any(|extender| extender.preempt_verb.is_some()) {
            writeln!(out, "pods: {{source: Watch}}  # for the victims of preemption")?;
        }
        writeln!(out, "exempt: {{namespaces: []}}  # the extenders are asked about all pods, as before")?;
        if let Some(binder) = self.binders().next() {
            writeln!(out, "binder: {}", scalar(&binder.name))?;
        }
        Ok(())
    }
}

impl Extender {
    /// The gateway's timeout of a call.
    fn limit(&self) -> Duration {
        (self.timeout + MARGIN).min(LONGEST.saturating_sub(SLACK + LAST_LOOK))
    }

    fn write_args(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "  args:\n    urlPrefix: {}", scalar(&self.url_prefix))?;
        let verbs = [
            ("filterVerb", &self.filter_verb),
            ("prioritizeVerb", &self.prioritize_verb),
            ("preemptVerb", &self.preempt_verb),
            ("bindVerb", &self.bind_verb),
        ];
        for (name, verb) in verbs {
            if let Some(verb) = verb {
                writeln!(out, "    {name}: {}", scalar(verb))?;
            }
        }
        if self.node_cache_capable {
            writeln!(out, "    nodeCacheCapable: true")?;
        }
        writeln!(out, "    httpTimeout: {}", DurationText(self.timeout))?;
        if self.filter_verb.is_some() {
            writeln!(out, "    sideEffects: [filter]  # assumed: the verbs that change something")?;
        }
        if self.enable_https {
            writeln!(out, "    enableHTTPS: true")?;
        }
        match self.tls.as_deref() {
            None => {}
            Some([]) => writeln!(out, "    tlsConfig: {{}}")?,
            Some(fields) => {
                writeln!(out, "    tlsConfig:")?;
                for (name, value) in fields {
                    match value {
                        TlsValue::Flag(flag) => writeln!(out, "      {name}: {flag}")?,
                        TlsValue::Text(text) => writeln!(out, "      {name}: {}", scalar(text))?,
                    }
                }
            }
        }
        Ok(())
    }

    fn write_verbs(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let limit = DurationText(self.limit());
        let [policy, next] = if self.ignorable { ["Ignore", "Next"] } else { ["Fail", "Fail"] };
        if self.filter_verb.is_some() {
            writeln!(out, "  filter:\n    timeout: {limit}\n    failurePolicy: {policy}")?;
            // kube-scheduler may evict pods on its FailedNodes, not on its FailedAndUnresolvableNodes.
            writeln!(out, "    preemptionMayHelp: Honored  # for FailedNodes, as before")?;
        }
        if self.prioritize_verb.is_some() {
            writeln!(out, "  score: {{timeout: {limit}, weight: {}}}", self.weight)?;
        }
        if self.preempt_verb.is_some() {
            let added = "addedVictims: Allowed";
            writeln!(out, "  preempt: {{timeout: {limit}, failurePolicy: {policy}, {added}}}")?;
        }
        if self.bind_verb.is_some() {
            writeln!(out, "  bind: {{timeout: {limit}, failurePolicy: {next}}}")?;
        }
        Ok(())
    }
}

impl Display for Extender {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        if !self.resources.is_empty() {
            writeln!(out, "  match:\n    managedResources:")?;
        }
        for resource in &self.resources {
            writeln!(out, "    - name: {}", scalar(&resource.name))?;
            if resource.ignored_by_scheduler {
                writeln!(out, "      ignoredByScheduler: true")?;
            }
        }
        self.write_args(out)?;
        self.write_verbs(out)
    }
}

impl Display for Gateway<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { import, backend_url, address } = self;
        writeln!(out, "# The gateway's configuration: each backend is one of the extenders, asked by")?;
        writeln!(out, "# `extender-policies http-extender`.")?;
        writeln!(out, "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration")?;
        let mut extender = Vec::new();
        if import.binds() {
            writeln!(
                out,
                "# Who reaches this address can bind pods: another one needs extender.tls with clientCAFile."
            )?;
            extender.push(match address {
                Address::Local => "address: \"127.0.0.1:8888\"".to_owned(),
                Address::RemoteTls(port) => format!("address: \"0.0.0.0:{port}\", tls: {{{TLS}}}"),
            });
        }
        let mut settings = String::new();
        import.write_settings(&mut settings, &extender)?;
        writeln!(out, "{settings}backends:")?;
        for extender in &import.extenders {
            writeln!(out, "- name: {}\n  url: {}", scalar(&extender.name), scalar(backend_url))?;
            write!(out, "{extender}")?;
        }
        Ok(())
    }
}

impl Display for Values<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self(import) = self;
        writeln!(
            out,
            "# Values for the chart: each policy is one of the extenders, asked by http-extender."
        )?;
        let mut settings = String::new();
        import.write_settings(&mut settings, &[])?;
        writeln!(out, "config:")?;
        settings.lines().try_for_each(|line| writeln!(out, "  {line}"))?;
        writeln!(out, "policies:")?;
        for extender in &import.extenders {
            writeln!(out, "- name: {}\n  program: http-extender", scalar(&extender.name))?;
            write!(out, "{extender}")?;
        }
        Ok(())
    }
}
