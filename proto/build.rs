//! Compiles the contract without `protoc`: protox parses, prost and tonic generate.

use std::{env, error::Error, fs, path::PathBuf};

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
