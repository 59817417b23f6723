#!/bin/sh
# Takes away, one at a time, what keeps a lease's word, and shows that a test turns red: the comparison of the lease token in
# each statement that settles, and both looks at the lease before an attempt. Exit status 1 if a mutant lives.
#   usage: mutants.sh
set -u
cd "$(dirname "$0")/.."

file=""
restore() { [ -z "$file" ] || { cp target/mutant.orig "$file"; file=""; }; }
trap restore EXIT
trap 'exit 130' INT TERM
mkdir -p target
lived=0

# mutant FILE OLD NEW: OLD is a fixed string of one line.
mutant() {
    cp "$1" target/mutant.orig
    file=$1
    OLD=$2 NEW=$3 awk 'BEGIN { old = ENVIRON["OLD"]; new = ENVIRON["NEW"] }
        (at = index($0, old)) && !done { $0 = substr($0, 1, at - 1) new substr($0, at + length(old)); done = 1 }
        { print } END { exit !done }' target/mutant.orig > "$1" || { echo "$1: no longer has: $2" >&2; restore; exit 2; }
    echo "== $1: '$2' -> '$3'"
    cargo test --quiet --lib -- p3_ p5_ > target/mutant.log 2>&1 && cargo test --quiet --test it -- p3_ p5_ >> target/mutant.log 2>&1
    is_green=$?
    restore
    if grep -q '^error' target/mutant.log && ! grep -q '^test result: FAILED' target/mutant.log; then
        cat target/mutant.log >&2
        exit 2
    fi
    grep -E '^    [a-z_0-9]+(::[a-z_0-9]+)+$' target/mutant.log | sort -u
    if [ $is_green = 0 ]; then
        echo "   lives"
        lived=1
    fi
}

fence="o.state = 'in_flight' and o.lease_token = s.lease_token"
for statement in settle_delivered settle_retried settle_quarantined give_back; do
    mutant "sql/outbox/$statement.sql" "$fence" "o.state = 'in_flight'"
done
for statement in settle_delivered settle_retried settle_quarantined; do
    mutant "sql/history/$statement.sql" "$fence" "o.state = 'in_flight'"
done
mutant src/deliver/mod.rs 'if !lease.admits(now, tools.attempt_timeout) {' 'if false {'
mutant src/deliver/mod.rs 'if now >= deadline || !lease.hold.admits(now, deadline) {' 'if false {'
mutant src/life.rs 'now < self.horizon && done <= self.until' 'now < self.horizon'
exit $lived
