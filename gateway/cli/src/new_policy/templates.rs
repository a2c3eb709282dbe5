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

const PYTHON: &[Template] = files!(
    "python",
    "Dockerfile",
    "README.md",
    "dockerignore" => ".dockerignore",
    "gitignore" => ".gitignore",
    "policy.py",
    "pyproject.toml",
    "test_policy.py",
);

const GO: &[Template] = files!(
    "go",
    "Dockerfile",
    "README.md",
    "dockerignore" => ".dockerignore",
    "gitignore" => ".gitignore",
    "go.mod",
    "main.go",
    "main_test.go",
);

const TYPESCRIPT: &[Template] = files!(
    "typescript",
    "Dockerfile",
    "README.md",
    "dockerignore" => ".dockerignore",
    "gitignore" => ".gitignore",
    "package.json",
    "src/main.ts",
    "src/policy.test.ts",
    "src/policy.ts",
    "tsconfig.json",
);

const JAVA: &[Template] = files!(
    "java",
    "Dockerfile",
    "README.md",
    "dockerignore" => ".dockerignore",
    "gitignore" => ".gitignore",
    "pom.xml",
    "src/main/java/policy/Main.java",
    "src/test/java/policy/MainTest.java",
);

impl Template {
    /// The files of a new policy in this language.
    pub(super) fn of(language: Language) -> Vec<Self> {
        let own = match language {
            Language::Rust => RUST,
            Language::Python => PYTHON,
            Language::Go => GO,
            Language::Typescript => TYPESCRIPT,
            Language::Java => JAVA,
        };
        COMMON.iter().chain(own).copied().collect()
    }
}
