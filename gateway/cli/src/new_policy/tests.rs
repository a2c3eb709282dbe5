use std::collections::BTreeSet;

use super::*;

fn run_in(folder: &Path, name: &str, language: Language) -> Result<String, Failure> {
    let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let into = Some(folder.join("new"));
    let options = NewPolicyOptions { name: name.to_owned(), language, checkout, into };
    let (mut out, mut notes) = (Vec::new(), Vec::new());
    run(&options, &mut Console { out: &mut out, notes: &mut notes })?;
    Ok(String::from_utf8(out).unwrap())
}

fn files_below(folder: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { BTreeSet::from([path]) }).collect()
}

#[test]
fn every_placeholder_is_filled() {
    for language in Language::value_variants() {
        let folder = tempfile::tempdir().unwrap();
        let said = run_in(folder.path(), "closed-zones", *language).unwrap();
        assert!(said.contains("README.md"), "{said}");
        for file in files_below(folder.path()) {
            let text = fs::read_to_string(&file).unwrap();
            let placeholders = ["{{name}}", "{{checkout}}", "{{sdk}}", "{{version}}"];
            let left = placeholders.iter().any(|placeholder| text.contains(placeholder));
            assert!(!left && !text.contains("{{P"), "{}", file.display());
            let checkout = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
            let from_root = text
                .split_whitespace()
                .any(|word| word.contains(checkout.to_str().unwrap()) && !word.contains("../"));
            assert!(!from_root, "{} has a path of this machine", file.display());
        }
    }
}

#[test]
fn each_file_of_the_templates_is_written() {
    let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../backends/templates");
    let languages = Language::value_variants().len();
    let count = |folder: &str| files_below(&templates.join(folder)).len();
    assert_eq!(fs::read_dir(&templates).unwrap().count(), languages + 1);
    for language in Language::value_variants() {
        let name = language.to_possible_value().unwrap().get_name().to_owned();
        assert_eq!(Template::of(*language).len(), count("common") + count(&name), "{name}");
    }
}

#[test]
fn the_checkout_is_named_by_the_way_to_it() {
    let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to)).display().to_string();
    assert_eq!(way("/src/zones", "/src/extender-gateway"), "../extender-gateway");
    assert_eq!(way("/src/extender-gateway/policies/zones", "/src/extender-gateway"), "../..");
    assert_eq!(way("/home/a/zones", "/opt/extender-gateway"), "../../../opt/extender-gateway");
}

/// In the image the checkout is where it is beside the new folder; what is to be built before is not in git.
#[test]
fn dockerfiles_copy_what_is_there() {
    for language in Language::value_variants() {
        let folder = tempfile::tempdir().unwrap();
        run_in(folder.path(), "closed-zones", *language).unwrap();
        let new = folder.path().canonicalize().unwrap().join("new");
        let text = fs::read_to_string(new.join("Dockerfile")).unwrap();
        let contexts: Vec<_> = text.lines().next().unwrap().split(" --build-context ").skip(1).collect();
        let copies = text.lines().filter_map(|line| line.strip_prefix("COPY --from=")?.split_once(' '));
        for (context, files) in copies.filter(|(context, _)| *context != "build") {
            let of_context = contexts.iter().find_map(|it| it.strip_prefix(context)?.strip_prefix('='));
            let path = of_context
                .unwrap_or_else(|| panic!("no --build-context {context}"))
                .split(' ')
                .next()
                .unwrap();
            let file = new.join(path).join(files.split(' ').next().unwrap());
            let made = file.ends_with("backends/typescript/dist");
            assert!(made || file.exists(), "{} is missing", file.display());
        }
    }
}

#[test]
fn a_folder_that_is_there_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("new")).unwrap();
    let error = run_in(folder.path(), "closed-zones", Language::Rust).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("exists") && error.ends_with("or another folder with --into FOLDER"), "{error}");
    assert_eq!(files_below(folder.path()), BTreeSet::new());
}

#[test]
fn wrong_names_and_checkouts_are_named() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["", "Closed", "closed_zones", "-zones", "7zones", "a/b", &"a".repeat(64)] {
        let error = run_in(folder.path(), name, Language::Rust).unwrap_err();
        assert!(error.to_string().contains("is not a name for a policy"), "{name}: {error}");
        assert_eq!(error.exit_code(), 2);
    }
    for name in ["main", "go", "test", "for", "class", "fmt"] {
        let error = run_in(folder.path(), name, Language::Go).unwrap_err();
        let expected = format!(
            "is not a name for a policy: programming languages or their tools use it for something else; \
                                choose another one such as {name}-nodes"
        );
        assert!(error.to_string().ends_with(&expected), "{name}: {error}");
        assert_eq!(error.exit_code(), 2);
    }
    run_in(folder.path(), "fmt", Language::Python).unwrap();
    let error = found(folder.path(), Language::Rust).unwrap_err().to_string();
    assert!(error.contains("expected a checkout of extender-gateway"), "{error}");
}
