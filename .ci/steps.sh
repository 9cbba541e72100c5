# shellcheck shell=bash
# Steps: one command, one time limit, one log; what the test runners print is added up.
#
# Sourced by ./dev. Leaves the choice of commands to it.

passed=0 failed=0 skipped=0
failed_steps=()
log_directory=$target_directory/dev-logs

say() { printf '%s\n' "$*"; }
headline() { printf '\n== %s\n' "$*"; }
die() {
    printf 'dev: %s\n' "$*" >&2
    exit 1
}

# step NAME SECONDS COMMAND...: runs the command under the time limit with no standard input. Its output goes to a log, of
# which a failing step shows the end. The step's tests are counted; a step in which no runner reports counts as one check.
step() {
    local name=$1 seconds=$2
    shift 2
    mkdir -p "$log_directory"
    local log=$log_directory/${name//[^A-Za-z0-9._-]/-}.log start=$SECONDS status=0
    printf '%-40s ' "$name"
    timeout --kill-after=20 "$seconds" "$@" >"$log" 2>&1 </dev/null || status=$?
    local failed_before=$failed
    count_tests "$log" "$status"
    if [ "$status" -eq 0 ] && [ "$failed" -eq "$failed_before" ]; then
        printf 'ok      %4ds  %s\n' $((SECONDS - start)) "$step_summary"
        return
    fi
    failed_steps+=("$name")
    [ "$status" -eq 124 ] && step_summary="stopped after its $seconds s ${step_summary}"
    printf 'FAILED  %4ds  %s\n' $((SECONDS - start)) "$step_summary"
    show_failure "$log"
}

# counted_step NAME SECONDS COMMAND...: the same for a runner of tests: where none reports a test, the step has failed.
counted_step() {
    local must_count=yes
    step "$@"
}

# skip NAME REASON: a step that this machine cannot run; counted, so that it does not go unseen.
skip() {
    skipped=$((skipped + 1))
    printf '%-40s skipped        %s\n' "$1" "$2"
}

# The lines that name a failure, then the end of the log: CI keeps little of a long output.
show_failure() {
    grep -nE '^(error|warning: unused|thread .* panicked|not ok|FAILED|E   )|test .* FAILED|^        FAIL ' "$1" | head -20 | sed 's/^/    /' || true
    say "    ... the end of $1:"
    tail -n 40 "$1" | cut -c1-300 | sed 's/^/    /'
}

# Adds up what libtest, nextest, pytest and our own scripts say in a log; sets step_summary.
count_tests() {
    local log=$1 status=$2 p f s
    read -r p f s < <(sed 's/\x1b\[[0-9;]*m//g' "$log" | awk '
        function number_before(word,   i, text) {
            for (i = 2; i <= NF; i++) { text = $i; gsub(/[;,=]/, "", text); if (text == word) return $(i - 1) + 0 }
            return 0
        }
        /^test result: / || /^ +Summary \[/ || /^=* ?[0-9]+ (passed|failed|skipped)/ {
            p += number_before("passed"); f += number_before("failed")
            s += number_before("skipped") + number_before("ignored")
        }
        /^ +Summary \[/ { f += number_before("timed") }
        END { print p + 0, f + 0, s + 0 }')
    step_summary="$p passed, $f failed, $s skipped"
    if [ $((p + f + s)) -eq 0 ]; then
        step_summary=''
        if [ "${must_count:-no}" = yes ]; then
            step_summary="no test has run"
            f=1
        elif [ "$status" -eq 0 ]; then
            p=1
        fi
    fi
    [ "$status" -ne 0 ] && [ "$f" -eq 0 ] && f=1
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
}

# The closing lines; the last one is read by machines. A run that tested nothing has failed.
finish() {
    headline "done in $((SECONDS / 60)) min $((SECONDS % 60)) s"
    local name
    for name in "${failed_steps[@]}"; do say "failed: $name"; done
    [ $((passed + failed)) -gt 0 ] || failed=1
    say "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ ${#failed_steps[@]} -eq 0 ]
}
