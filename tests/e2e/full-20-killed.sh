#!/usr/bin/env bash
# As 70-killed.sh, at five hundred moments.
KILL_TRIALS=500 exec bash "$(dirname "$0")/70-killed.sh"
