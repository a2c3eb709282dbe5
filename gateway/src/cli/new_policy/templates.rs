//! The files of `backends/templates`: those of a language, and those that all have.

use super::Language;

/// A file of a new policy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Template {
    /// Where it is in the new folder.
    pub(super) path: &'static str,
    pub(super) text: &'static str,
}

/// The files of a folder of templates. Names that tools would take for theirs are without their dot there.
macro_rules! files {
    ($folder:literal, $($file:literal $(=> $path:literal)?),+ $(,)?) => {
        &[$(Template {
            path: files!(@path $file $($path)?),
            text: include_str!(concat!("../../../../backends/templates/", $folder, "/", $file)),
        }),+]
    };
    (@path $file:literal $path:literal) => { $path };
    (@path $file:literal) => { $file };
}

const COMMON: &[Template] = files!("common", "gateway.yaml", "chart-values.yaml");

const RUST: &[Template] = files!(
    "rust",
    "Cargo.toml",
    "Dockerfile",
    "README.md",
    "dockerignore" => ".dockerignore",
    "gitignore" => ".gitignore",
    "src/main.rs",
);

impl Template {
    /// The files of a new policy in this language.
    pub(super) fn of(language: Language) -> Vec<Self> {
        let own = match language {
            Language::Rust => RUST,
        };
        COMMON.iter().chain(own).copied().collect()
    }
}
