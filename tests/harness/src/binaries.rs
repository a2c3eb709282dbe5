//! Finds the programs: beside the running one, or in the folder that the environment names.

use std::{
    env, io,
    path::{Path, PathBuf},
};

/// Names the folder of the programs, for callers that were not built beside them.
pub const FOLDER_VARIABLE: &str = "EXTENDER_GATEWAY_BIN_DIR";

/// A program of this workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// The product.
    Gateway,
    /// The ready-made policies.
    Policies,
    /// The floor of the benchmarks.
    EchoExtender,
    /// The policy of the benchmarks.
    BenchPolicy,
}

/// Why a program was not found.
#[derive(Debug, thiserror::Error)]
pub enum BinaryError {
    /// It has not been built, or is elsewhere.
    #[error(
        "{program} is not in {}: build it with `cargo build{profile} -p {package}`, \
         or name its folder in {FOLDER_VARIABLE}",
        folder.display()
    )]
    Missing {
        /// The file's name.
        program: &'static str,
        /// The searched folder.
        folder: PathBuf,
        /// The crate that builds it.
        package: &'static str,
        /// The flag that builds it into that folder, with a blank before it.
        profile: &'static str,
    },
    /// The system does not report the path of the running program.
    #[error("the folder of the running program is not known ({0}): name the folder in {FOLDER_VARIABLE}")]
    NoFolder(#[from] io::Error),
}

impl Program {
    /// The file's name.
    pub fn file_name(self) -> &'static str {
        match self {
            Self::Gateway => "extender-gateway",
            Self::Policies => "extender-policies",
            Self::EchoExtender => "echo-extender",
            Self::BenchPolicy => "bench-policy",
        }
    }

    /// The path of the built program.
    pub fn path(self) -> Result<PathBuf, BinaryError> {
        self.path_in(folder()?)
    }

    fn path_in(self, folder: PathBuf) -> Result<PathBuf, BinaryError> {
        let path = folder.join(self.file_name());
        if path.is_file() {
            return Ok(path);
        }
        let profile = if folder.ends_with("release") { " --release" } else { "" };
        Err(BinaryError::Missing { program: self.file_name(), folder, package: self.package(), profile })
    }

    fn package(self) -> &'static str {
        match self {
            Self::Gateway => "extender-gateway",
            Self::Policies => "extender-policies",
            Self::EchoExtender | Self::BenchPolicy => "extender-bench",
        }
    }
}

fn folder() -> io::Result<PathBuf> {
    if let Some(folder) = env::var_os(FOLDER_VARIABLE) {
        return Ok(folder.into());
    }
    let program = env::current_exe()?;
    Ok(folder_of_programs(program.parent().unwrap_or(Path::new("."))))
}

/// Cargo puts tests into a folder `deps` beside the programs.
fn folder_of_programs(folder: &Path) -> PathBuf {
    let of_tests = folder.ends_with("deps");
    let programs = if of_tests { folder.parent().unwrap_or(folder) } else { folder };
    programs.to_owned()
}
