#!/usr/bin/env bash
# Applies one deliberate fault after the other to a copy of the sources and runs the equivalence test there:
# each must be found, as a difference, within CASES generated cases.
#   tests/equivalence/faults.sh [PATCH...]     default: all of tests/equivalence/faults
# EQUIVALENCE_SEED selects the cases. The copy, the build and the logs stay in target/equivalence.
set -euo pipefail

CASES=300
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
work=$target/equivalence
copy=$work/source
patches=("$@")
[[ ${#patches[@]} -gt 0 ]] || patches=("$here"/faults/*.patch)

# One build folder for all faults, separate from the project's: cargo takes the copy's crates for the project's
# own, and would reuse a faulty one there.
export CARGO_TARGET_DIR=$work/build EQUIVALENCE_CASES=$CASES EQUIVALENCE_FIRST_ONLY=1
# Inside the project's repository, git would apply nothing.
export GIT_CEILING_DIRECTORIES=$work

rm -rf "$copy"
mkdir -p "$copy"
git -C "$root" ls-files -z | (cd "$root" && tar --null --files-from=- -cf -) | tar -C "$copy" -xf -

# Reuses the project's built dependencies.
if [[ ! -d $work/build && -d $target/debug ]]; then
  mkdir -p "$work/build/debug"
  for part in .fingerprint build deps; do
    cp -a --reflink=auto "$target/debug/$part" "$work/build/debug/"
  done
fi

# The result of the test with this fault: the number of cases, or that it is not found.
outcome() {
  local log=$work/$1.log
  if (cd "$copy" && cargo test --locked -p extender-equivalence --test equivalence) >"$log" 2>&1; then
    echo "NOT FOUND"
  else
    grep -om1 'difference found after [0-9]* cases' "$log" | grep -o '[0-9]*' || echo "BROKEN, see $log"
  fi
}

failed=0
printf '%-34s %s\n' fault 'found after so many cases'
for patch in "${patches[@]}"; do
  patch=$(realpath "$patch")
  name=$(basename "$patch" .patch)
  # The sources have changed: apply the fault by hand once, and recreate the patch.
  if ! git -C "$copy" apply "$patch"; then
    printf '%-34s %s\n' "$name" "DOES NOT APPLY"
    failed=1
    continue
  fi
  result=$(outcome "$name")
  git -C "$copy" apply --reverse "$patch"
  printf '%-34s %s\n' "$name" "$result"
  [[ $result =~ ^[0-9]+$ ]] || failed=1
done
exit $failed
