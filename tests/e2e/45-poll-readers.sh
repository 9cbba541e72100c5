#!/usr/bin/env bash
# C3: readers open the file as fast as they can while runs write it, are killed, go on, close and start again. Seconds here;
# `./dev poll-readers` for ten minutes.
. "$(dirname "$0")/lib.sh"
python=$source/.venv/bin/python
if [ ! -x "$python" ]; then
    skip "C3 readers poll" "no Python environment"
    finish
    exit
fi
output=$(timeout --kill-after=5 300 "$python" "$source/tests/kill/poll_readers.py" "$afflux" 0.33 2>&1 </dev/null) && polled=0 || polled=$?
printf '%s\n' "$output"
if [ "$polled" -eq 0 ]; then ok "C3 no reader met an error or a wrong value"; else not_ok "C3 a reader met an error or a wrong value"; fi
finish
