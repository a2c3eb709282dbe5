//! The profile with which kube-scheduler's plugin asks the gateway instead of an extender.

use std::{
    collections::BTreeSet,
    fmt::{self, Display, Formatter},
    path::Path,
    time::Duration,
};

use extender_gateway_settings::{Config, DurationText, scalar};

use super::{MARGIN, ignored};

/// kube-scheduler multiplies the scores of extenders by this, and those of plugins by their weight.
const WEIGHT: u32 = 10;

/// A profile with the plugin, displayed as YAML with comments.
#[derive(Debug)]
pub struct Profile<'c> {
    /// Whether kube-scheduler places pods without any policy while no gateway answers.
    pub ignorable: bool,
    socket: &'c Path,
    timeout: Duration,
    ignored: BTreeSet<String>,
}

impl<'c> Profile<'c> {
    /// That for a configuration; `None` if the gateway has no socket.
    pub fn of(config: &'c Config) -> Option<Self> {
        Some(Self {
            ignorable: config.extender.ignorable,
            socket: config.extender.socket.as_deref()?,
            timeout: config.timeouts.decision + MARGIN,
            ignored: ignored(config),
        })
    }
}

impl Display for Profile<'_> {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let socket = scalar(&self.socket.to_string_lossy());
        writeln!(
            out,
            "profiles:\n\
             - schedulerName: default-scheduler\n\
             \x20 plugins:\n\
             \x20   multiPoint:\n\
             \x20     disabled:\n\
             \x20     - name: DefaultPreemption  # asks no backend; the plugin preempts\n\
             \x20     enabled:\n\
             \x20     - name: ExtenderGateway\n\
             \x20       weight: {WEIGHT}  # as much as an extender of weight 1\n\
             \x20   filter:\n\
             \x20     enabled:\n\
             \x20     - name: ExtenderGateway  # before the filters that take longer\n\
             \x20   bind:\n\
             \x20     enabled:\n\
             \x20     - name: ExtenderGateway  # before the binder that asks no backend\n\
             \x20 pluginConfig:\n\
             \x20 - name: ExtenderGateway\n\
             \x20   args:\n\
             \x20     socket: {socket}\n\
             \x20     timeout: {}",
            DurationText(self.timeout)
        )?;
        if self.ignorable {
            writeln!(
                out,
                "      ignorable: true  # while no gateway answers, pods are placed without any policy"
            )?;
        }
        if self.ignored.is_empty() {
            return Ok(());
        }
        writeln!(out, "  - name: NodeResourcesFit\n    args:\n      ignoredResources:")?;
        self.ignored.iter().try_for_each(|name| writeln!(out, "      - {}", scalar(name)))
    }
}
