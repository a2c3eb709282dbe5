//! `--serve`: everything keeps running, and the text explains how to use it.

use std::{env, thread};

use crate::stage::{RULES, Stage};

/// Prints what to put into kube-scheduler's configuration, then waits for Ctrl-C.
pub(crate) fn until_interrupted(stage: &Stage) {
    let program = env::current_exe().ok().map(|demo| demo.with_file_name("extender-gateway"));
    let program = program.unwrap_or_else(|| "extender-gateway".into());
    let program = program.display();
    let (extender, metrics, admin) = (stage.gateway.extender, stage.gateway.metrics, stage.gateway.admin);
    println!(
        "
The gateway serves until Ctrl-C. In kube-scheduler's KubeSchedulerConfiguration:

  extenders:
  - urlPrefix: http://{extender}
    filterVerb: filter
    prioritizeVerb: prioritize
    weight: 1
    httpTimeout: 2s
    # kube-scheduler sends whole nodes, so any cluster's will do. With `nodes: {{source: Watch}}` in
    # the gateway's configuration say true here: names alone are sent, which is much faster.
    nodeCacheCapable: false

The same by hand:

  curl -s --data-binary @tests/captures/filter-names.json http://{extender}/filter
  curl -s --data-binary @tests/captures/prioritize-nodes.json http://{extender}/prioritize
  curl -s http://{metrics}/metrics
  {program} explain low-0 -n cap-names --no-cluster --gateway http://{admin}
  {program} status --gateway http://{admin}
  curl -s 'http://{admin}/debug/decisions?limit=1'
  curl -X PUT -d debug http://{admin}/debug/flags/v

In a browser, status and decisions: http://{admin}/#pod=cap-names/low-0

Change {RULES}/rack-drain.yaml while it runs: the policy reads it again. What the gateway logs follows."
    );
    stage.gateway.process.show();
    loop {
        thread::park();
    }
}
