//! Compiles the contract without `protoc`: protox parses, prost and tonic generate. Its limits become constants.

use std::{env, error::Error, fmt::Write as _, fs, path::PathBuf};

use protox::prost::Message;

const PROTOS: [&str; 8] = [
    "extender/policy/v1alpha1/policy.proto",
    "extender/policy/v1alpha1/info.proto",
    "extender/policy/v1alpha1/pod.proto",
    "extender/policy/v1alpha1/node.proto",
    "extender/policy/v1alpha1/resources.proto",
    "extender/policy/v1alpha1/table.proto",
    "extender/policy/v1alpha1/introspection.proto",
    "extender/policy/v1alpha1/hooks.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=extender");
    let files = protox::compile(PROTOS, ["."])?;
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
    fs::write(out.join("descriptor.bin"), files.encode_to_vec())?;
    println!("cargo:rerun-if-changed=LIMITS.md");
    fs::write(out.join("limits.rs"), limits(&fs::read_to_string("LIMITS.md")?)?)?;
    tonic_prost_build::configure()
        // Ordered maps: equal facts have equal bytes, so comparing them shows a change.
        .btree_map(".")
        // Arguments and raw objects are passed on, not copied.
        .bytes(".")
        // A pod takes a kilobyte, and most victims are a UID alone.
        .boxed(".extender.policy.v1alpha1.Victim.pod")
        // The client is generic over its transport: the gateway has its own.
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}

/// The rows of the tables as constants, and for tests all of them, each with the number of its table.
fn limits(page: &str) -> Result<String, Box<dyn Error>> {
    let (mut constants, mut all, mut table) = (String::new(), String::new(), 0);
    for line in page.lines() {
        table += usize::from(line.starts_with("## "));
        let Some(row) = line.strip_prefix("| `").and_then(|row| row.strip_suffix(" |")) else { continue };
        let [name, value, of] = row.split(" | ").collect::<Vec<_>>()[..] else { return Err(line.into()) };
        let (name, value) = (name.trim_end_matches('`'), value.replace(',', ""));
        let (number, unit) = value.split_once(' ').unwrap_or((&value, "bytes"));
        let units = ["bytes", "KiB", "MiB"];
        let power = units.iter().position(|it| *it == unit).ok_or(line)?;
        let value = number.parse::<usize>()? << (10 * power);
        writeln!(constants, "/// {of}.\npub const {name}: usize = {value};")?;
        write!(all, "({name:?}, {value}, {table}),")?;
    }
    Ok(format!("{constants}#[cfg(test)]\nconst ALL: &[(&str, usize, usize)] = &[{all}];"))
}
