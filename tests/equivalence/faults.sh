#!/usr/bin/env bash
# Puts one deliberate fault after the other into a copy of the sources and runs the equivalence test there:
# each must be found, as a difference, in at most CASES generated cases.
#   tests/equivalence/faults.sh [PATCH...]     default: all of tests/equivalence/faults
# EQUIVALENCE_SEED chooses the cases. The copy, the build and the logs stay in target/equivalence.
set -euo pipefail

CASES=300
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
target=$(realpath -m "${CARGO_TARGET_DIR:-$root/target}")
work=$target/equivalence
copy=$work/source
patches=("$@")
[[ ${#patches[@]} -gt 0 ]] || patches=("$here"/faults/*.patch)

# One build folder for all faults, and not the project's: cargo takes the copy's crates for the project's own,
# and would go on with a faulty one there.
export CARGO_TARGET_DIR=$work/build EQUIVALENCE_CASES=$CASES EQUIVALENCE_FIRST_ONLY=1
# Below the project's repository, git would apply nothing.
export GIT_CEILING_DIRECTORIES=$work

rm -rf "$copy"
mkdir -p "$copy"
git -C "$root" ls-files -z | (cd "$root" && tar --null --files-from=- -cf -) | tar -C "$copy" -xf -

# What the project has built of its dependencies need not be built again.
if [[ ! -d $work/build && -d $target/debug ]]; then
  mkdir -p "$work/build/debug"
  for part in .fingerprint build deps; do
    cp -a --reflink=auto "$target/debug/$part" "$work/build/debug/"
  done
fi

# What the test says with this fault: after how many cases, or that it is not found.
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
  # Sources have moved on: the fault is put in by hand once, and the patch made again.
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
