//! `echo-extender --address ADDR`: the floor of the benchmarks as a program. It prints
//! `listening on ADDR` when it is ready.

use std::{
    io,
    net::{SocketAddr, TcpListener},
};

use clap::Parser;
use extender_bench::echo;

/// An extender that keeps every node and gives each a score, as fast as sockets go.
#[derive(Debug, Parser)]
struct Options {
    /// Where to listen; port 0 is a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    address: SocketAddr,
}

fn main() -> io::Result<()> {
    let listener = TcpListener::bind(Options::parse().address)?;
    println!("listening on {}", listener.local_addr()?);
    echo::serve(&listener)
}
