//! The work of a call grows no faster than its body.

use std::path::Path;

use extender_guard::growth::Many;

/// Where callgrind's counts stay, for `callgrind_annotate`.
const COUNTS: &str = env!("CARGO_TARGET_TMPDIR");

#[test]
#[ignore = "needs valgrind and the release build, which make growth sees to"]
fn the_work_of_a_call_grows_no_faster_than_its_body() {
    let judge = |many: &Many| match many.growth(Path::new(COUNTS)) {
        Ok(growth) => {
            println!("{}: {growth:?}", many.name);
            growth.judge(many.name).err()
        }
        Err(error) => Some(format!("{}: {error}", many.name)),
    };
    let complaints: Vec<String> = Many::ALL.iter().filter_map(judge).collect();
    let hint = format!("What takes them: callgrind_annotate {COUNTS}/callgrind.out.…");
    assert!(complaints.is_empty(), "\n{}\n{hint}", complaints.join("\n"));
}
