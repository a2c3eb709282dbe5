//! Tells `extender-gateway version` which compiler built it, and for which target.

use std::{
    env,
    io::{Error, Result},
    process::Command,
};

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| env::var(name).map_err(Error::other);
    let printed = Command::new(variable("RUSTC")?).arg("--version").output()?.stdout;
    let printed = String::from_utf8(printed).map_err(Error::other)?;
    // `rustc 1.95.0 (59807616e 2026-04-14)`
    let version = printed.split_whitespace().nth(1).unwrap_or("unknown");
    println!("cargo::rustc-env=EXTENDER_GATEWAY_RUST_VERSION={version}");
    println!("cargo::rustc-env=EXTENDER_GATEWAY_TARGET={}", variable("TARGET")?);
    Ok(())
}
