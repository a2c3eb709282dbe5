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
    ($folder:literal, $($file:literal $(=> $path:literal)?),+) => {
        &[$(Template {
            path: files!(@path $file $($path)?),
            text: include_str!(concat!("../../../../backends/templates/", $folder, "/", $file)),
        }),+]
    };
    (@path $file:literal $path:literal) => { $path };
    (@path $file:literal) => { $file };
}

/// The files of a language: those that each has, and its own.
macro_rules! language {
    ($folder:literal, $($own:tt)+) => {
        files!($folder, "Dockerfile", "README.md", "dockerignore" => ".dockerignore", "gitignore" => ".gitignore", $($own)+)
    };
}

const COMMON: &[Template] = files!("common", "gateway.yaml", "chart-values.yaml");

impl Template {
    /// The files of a new policy in this language.
    pub(super) fn of(language: Language) -> Vec<Self> {
        let own: &[Self] = match language {
            Language::Rust => language!("rust", "Cargo.toml", "src/main.rs"),
            Language::Python => language!("python", "policy.py", "pyproject.toml", "test_policy.py"),
            Language::Go => language!("go", "go.mod", "main.go", "main_test.go"),
            Language::Typescript => language!(
                "typescript",
                "npmrc" => ".npmrc",
                "package.json",
                "src/main.ts",
                "src/policy.test.ts",
                "src/policy.ts",
                "tsconfig.json"
            ),
            Language::Java => language!(
                "java",
                "pom.xml",
                "src/main/java/policy/Main.java",
                "src/test/java/policy/MainTest.java"
            ),
        };
        COMMON.iter().chain(own).copied().collect()
    }
}
