//! `new-policy`: the folder of a policy backend to start from, in one of the languages that have an SDK.

mod reserved;
mod templates;
#[cfg(test)]
mod tests;

use std::{
    fs, io, iter,
    path::{Component, Path, PathBuf},
};

use clap::{Args, ValueEnum};
use extender_config::names::is_dns_label;

use self::{reserved::is_reserved, templates::Template};
use super::output::{Console, Failure};

/// The command's description.
pub(super) const ABOUT: &str = "Write a policy backend to start from.\n\n\
    Writes a folder with a backend that builds: a policy that rejects nodes of closed zones, its unit test, a Dockerfile, its entry \
    in the gateway's configuration, and its values for the Helm chart. README.md there says how to test, run and check it.\n\n\
    Until the SDKs are published they are used by their path in a checkout, which is relative to the new folder: it can be committed, and \
    builds wherever the checkout is in the same place beside it.";

/// Examples.
pub(super) const EXAMPLES: &str = "\
Examples:
  extender-gateway new-policy --language rust closed-zones --checkout ../extender-gateway
  extender-gateway new-policy --language python closed-zones --checkout ../extender-gateway --into policies/zones";

/// The command's options.
#[derive(Debug, Args)]
pub(super) struct NewPolicyOptions {
    /// The name of the policy: lower case letters, digits and hyphens
    name: String,

    /// The language
    #[arg(long, value_enum)]
    language: Language,

    /// A checkout of extender-gateway, which has the SDKs
    #[arg(long, value_name = "FOLDER")]
    checkout: PathBuf,

    /// The new folder; by default that of the policy's name
    #[arg(long, value_name = "FOLDER")]
    into: Option<PathBuf>,
}

/// The languages that have an SDK.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Language {
    /// With Cargo
    Rust,
    /// 3.10 or later
    Python,
    /// 1.26 or later
    Go,
    /// For Node.js 20.19 or later
    Typescript,
    /// 17 or later, with Maven
    Java,
}

impl Language {
    /// Where the SDK is in a checkout.
    fn sdk(self) -> &'static str {
        match self {
            Self::Rust => "backends/sdk",
            Self::Python => "backends/python",
            Self::Go => "backends/go",
            Self::Typescript => "backends/typescript",
            Self::Java => "backends/java",
        }
    }
}

/// Writes the files and says what to do next.
pub(super) fn run(options: &NewPolicyOptions, console: &mut Console<'_>) -> Result<(), Failure> {
    let NewPolicyOptions { name, language, checkout, into } = options;
    if !is_policy_name(name) {
        return Err(Failure::Usage(format!(
            "{name:?} is not a name for a policy; expected a lower case letter, then lower case letters, digits and \
             hyphens, at most 63, such as closed-zones"
        )));
    }
    if is_reserved(name, *language) {
        return Err(Failure::Usage(format!(
            "{name:?} is not a name for a policy: programming languages or their tools use it for something else; choose another one \
             such as {name}-nodes"
        )));
    }
    let checkout = found(checkout, *language)?;
    let folder = into.clone().unwrap_or_else(|| name.into());
    let failed = |error| Failure::Usage(not_written(&folder, &error));
    let checkout = relative(&created(&folder).map_err(failed)?, &checkout);
    let names = Names { name, sdk: &checkout.join(language.sdk()), checkout: &checkout };
    write_all(&folder, &names, Template::of(*language)).map_err(failed)?;
    writeln!(
        console.out,
        "{} has a policy to start from; its README.md says how to go on.",
        folder.display()
    )?;
    Ok(())
}

fn not_written(folder: &Path, error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::AlreadyExists => "; choose another name, or another folder with --into FOLDER",
        _ => "",
    };
    format!("cannot write {}: {error}{remedy}", folder.display())
}

/// A name of a backend that is also one of a program and of a package.
fn is_policy_name(name: &str) -> bool {
    is_dns_label(name) && name.starts_with(|first: char| first.is_ascii_lowercase())
}

/// The checkout's absolute path.
fn found(checkout: &Path, language: Language) -> Result<PathBuf, Failure> {
    let sdk = checkout.join(language.sdk());
    match sdk.canonicalize().and(checkout.canonicalize()) {
        // Docker, Go and shells would read a part of the path alone.
        Ok(absolute) if absolute.to_string_lossy().contains(char::is_whitespace) => {
            Err(Failure::Usage(format!(
                "--checkout {}: the path has white space, which its tools cannot read; move the checkout",
                absolute.display(),
            )))
        }
        Ok(absolute) => Ok(absolute),
        Err(error) => Err(Failure::Usage(format!(
            "--checkout {}: {}: {error}; expected a checkout of extender-gateway",
            checkout.display(),
            sdk.display(),
        ))),
    }
}

/// What placeholders stand for.
struct Names<'a> {
    name: &'a str,
    checkout: &'a Path,
    sdk: &'a Path,
}

impl Names<'_> {
    fn fill(&self, text: &str) -> String {
        text.replace("{{name}}", self.name)
            .replace("{{checkout}}", &self.checkout.display().to_string())
            .replace("{{sdk}}", &self.sdk.display().to_string())
            .replace("{{version}}", env!("CARGO_PKG_VERSION"))
    }
}

/// The absolute path of the new folder. Never one that is there: it may have somebody's work.
fn created(folder: &Path) -> io::Result<PathBuf> {
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::create_dir(folder)?;
    folder.canonicalize()
}

/// The way from one folder to another. Both are absolute.
fn relative(from: &Path, to: &Path) -> PathBuf {
    let common = from.components().zip(to.components()).take_while(|(from, to)| from == to).count();
    let up = iter::repeat_n(Component::ParentDir, from.components().count() - common);
    up.chain(to.components().skip(common)).collect()
}

fn write_all(folder: &Path, names: &Names<'_>, templates: Vec<Template>) -> io::Result<()> {
    for Template { path, text } in templates {
        let file = folder.join(names.fill(path));
        if let Some(parent) = file.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(file, names.fill(text))?;
    }
    Ok(())
}
