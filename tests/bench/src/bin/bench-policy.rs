//! `bench-policy`: the policy of the benchmarks as a program. It prints `listening on ADDR` when it is ready.

use std::{error::Error, net::SocketAddr, process::ExitCode};

use clap::Parser;
use extender_bench::policy::{Declaration, Label, LabelPolicy, Preference, ReadsDeclared, Settings, Table};
use extender_policy_sdk::{Options, serve_blocking};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Refuses nodes by one label and scores them by others, declared as one likes.
#[derive(Debug, Parser)]
struct Arguments {
    /// Name of the policy in its handshake, 1 to 63 bytes
    #[arg(long, default_value = "bench-policy")]
    name: String,
    /// What it says about its verbs
    #[arg(long, value_enum, default_value_t = Declaration::Pure)]
    declare: Declaration,
    /// What it declares that it reads
    #[arg(long, value_enum, default_value_t = ReadsDeclared::Labels)]
    reads: ReadsDeclared,
    /// Whether it offers to hold the gateway's table of nodes
    #[arg(long, value_enum, default_value_t = Table::On)]
    table: Table,
    /// Nodes with this label are refused
    #[arg(long, value_name = "KEY=VALUE")]
    refuse: Label,
    /// What a node with this label is worth; may be given several times
    #[arg(long, value_name = "KEY=VALUE:SCORE", allow_hyphen_values = true)]
    prefer: Vec<Preference>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

fn main() -> ExitCode {
    match serve(Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            drop(std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("bench-policy: {error}\n")));
            ExitCode::FAILURE
        }
    }
}

fn serve(arguments: Arguments) -> Result<(), Box<dyn Error>> {
    let Arguments { name, declare: declaration, reads, table, refuse, prefer, address } = arguments;
    let settings = Settings { name, declaration, reads, table, refuse, prefer };
    Ok(serve_blocking(LabelPolicy::new(settings), Options { address, ..Options::default() })?)
}
