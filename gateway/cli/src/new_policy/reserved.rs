//! Names with which a new policy would not build, or only until its first dependency.

use super::Language;

/// Keywords of the languages, and names that their tools use for something else: Cargo for folders and crates of its own,
/// Go for programs and patterns of packages. One list for all languages: a policy may be written again in another one.
const RESERVED: &str = "\
    abstract and as assert async await become boolean box break byte case catch chan char class const continue crate debugger \
    def default defer del delete do double dyn elif else enum except export extends extern fallthrough false final finally \
    float fn for from func function gen global go goto if impl implements import in instanceof int interface is lambda let long \
    loop macro map match mod move mut native new nonlocal not null or override package pass priv private protected pub public \
    raise range record ref return sealed select self short static strictfp struct super switch synchronized this throw throws \
    trait transient true try type typeof undefined union unsafe unsized use var virtual void volatile where while with yield \
    all alloc build cargo cmd core deps examples extender-policy extender-policy-sdk incremental internal java main node policy \
    proc-macro python rust serde std test tests tool typescript vendor work";

/// The first parts of the paths of Go's standard library, which a module's path must not have.
const STANDARD_LIBRARY: &str = "\
    archive arena bufio builtin bytes cmp compress container context crypto database debug embed encoding errors expvar flag fmt \
    hash html image index io iter log maps math mime net os path plugin reflect regexp runtime slices sort strconv strings \
    structs sync syscall testing text time unicode unique unsafe weak";

/// Whether a new policy in this language cannot have the name.
pub(super) fn is_reserved(name: &str, language: Language) -> bool {
    let has = |words: &str| words.split_whitespace().any(|word| word == name);
    has(RESERVED) || (language == Language::Go && has(STANDARD_LIBRARY))
}
