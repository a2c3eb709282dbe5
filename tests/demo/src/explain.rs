//! The end of the demo: the gateway explains where the last pod may go, and why.

use std::process::{Command, Stdio};

use extender_harness::binaries::Program;

use crate::{Failure, calls, colour::Colours, stage::Stage};

/// How many rows of each table are shown.
const TOP: &str = "3";

/// The output of `extender-gateway explain` for the pod of the generated calls, and how to see more.
pub(crate) fn last_pod(stage: &Stage, colours: Colours) -> Result<String, Failure> {
    let pod = calls::generated_pod()?;
    let (namespace, name) = pod.split_once('/').ok_or("the demo's pod has no namespace")?;
    let gateway = format!("http://{}", stage.gateway.admin);
    let arguments = ["explain", name, "-n", namespace, "--gateway", &gateway, "--no-cluster", "--top", TOP];
    // The program prints its own errors.
    let said = Command::new(Program::Gateway.path()?).args(arguments).stderr(Stdio::inherit()).output()?;
    if !said.status.success() {
        return Err(format!("extender-gateway explain: {}", said.status).into());
    }
    let head = colours.bold(&format!("extender-gateway explain {name} -n {namespace}"));
    Ok(format!("\n{head}\n{}\n{MORE}", String::from_utf8(said.stdout)?))
}

const MORE: &str = "\
With --node NODE it says more about one node, with --top 0 about all of them; extender-gateway status says how
the gateway is. make demo ARGS=--serve keeps it running to be asked.
";
