//! `extender-demo`: starts the gateway and three policies as real servers on loopback, sends calls as
//! kube-scheduler makes them, and shows the result of each, at the end with `extender-gateway explain`. It fails if
//! an answer of the gateway differs from what the policies answer directly.

use std::{
    error::Error,
    io::{self, Write},
    net::SocketAddr,
    process::ExitCode,
};

use clap::Parser;

mod answer;
mod ask;
mod calls;
mod colour;
mod compare;
mod explain;
mod panel;
mod question;
mod serve;
mod show;
mod stage;
mod view;

/// An error ends the demo.
type Failure = Box<dyn Error>;

/// Shows what the gateway and three policies make of kube-scheduler's calls.
#[derive(Debug, Parser)]
struct Options {
    /// Keep everything running, and say how kube-scheduler can use it.
    #[arg(long)]
    serve: bool,
    /// Where the gateway listens; port 0 is a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(code) => code,
        Err(failure) => {
            // Standard error is closed: the message cannot be delivered.
            let _ = writeln!(io::stderr(), "demo: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<ExitCode, Failure> {
    let stage = stage::Stage::set(options.address)?;
    let (colours, mut panel) = (colour::Colours::of_stdout(), stage.panel()?);
    print!("{}", show::introduction(&stage, colours));
    let surprises = ask::all(&stage, &mut panel, colours)?;
    print!("{}", explain::last_pod(&stage, colours)?);
    print!("{}", show::conclusion(&surprises, colours));
    if !surprises.is_empty() {
        return Ok(ExitCode::FAILURE);
    }
    if options.serve {
        serve::until_interrupted(&stage);
    }
    Ok(ExitCode::SUCCESS)
}
