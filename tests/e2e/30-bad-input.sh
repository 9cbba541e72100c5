#!/usr/bin/env bash
# Bad input ends in a clear error and the right exit code; never a panic, a hang, or half a file in the name of a whole one.
. "$(dirname "$0")/lib.sh"

# refused CODES NAME ARGUMENTS...: one of these exit codes, some words, no panic.
refused() {
    local code=$1 name=$2
    shift 2
    exits "$code" "$name" "$afflux" "$@"
    never_says "$name: no panic" 'panicked at|RUST_BACKTRACE'
    [ -n "$output" ] && ok "$name: says why" || not_ok "$name: says why"
}

works "a file to begin with" "$afflux" synth --points 10 --steps 60 --variables 2 --out a.nc
before=$(cksum <a.nc)

refused 2 "no such command" nonsense
refused 2 "no such option" synth --nonsense
refused 2 "points that are no number" synth --points many --steps 1 --variables 1 --out x.nc
refused 1 "existing output" synth --points 10 --steps 60 --variables 2 --out a.nc
[ "$before" = "$(cksum <a.nc)" ] && ok "R4: the existing file is untouched" || not_ok "R4: the existing file is untouched"
refused 1 "no such directory" synth --points 10 --steps 5 --variables 1 --out missing/a.nc
refused 1 "no such file" info missing.nc
refused "1 2" "no such variable" plot a.nc --var nonsense --point 0 -o x.png
refused "1 2" "no such point" plot a.nc --var v0 --point 999999 -o x.png
[ -e x.png ] && not_ok "no picture of nothing" || ok "no picture of nothing"

printf 'not a file of ours\n' >text.nc
"$afflux" info text.nc >/dev/null 2>&1
status=$?
[ "$status" -eq 1 ] || [ "$status" -eq 3 ] && ok "a text is refused" || not_ok "a text is refused: exit code $status"

printf '[grid\ncells = oops' >broken.toml
refused 1 "damaged model file" fdtd broken.toml --out b.nc
[ -e b.nc ] && not_ok "no file of a run that never began" || ok "no file of a run that never began"

head -c $(($(stat -c %s a.nc) / 2)) a.nc >half.nc
refused 3 "half a file" verify half.nc

# One sample changed, in place: verify names it (its checksum is wrong, and so is its value).
cp a.nc bent.nc
python3 - bent.nc <<'PYTHON'
import sys
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    # Hash values of synth are numbers in [0, 1): find a run of them, and bend one in its middle.
    import struct
    size = 8
    for offset in range(4096 // size * size, len(data) - 64 * size, size):
        values = struct.unpack_from("<32d", data, offset)
        if all(0 < value < 1 and value > 1e-9 for value in values):
            data[offset + 16 * size] ^= 0xFF
            break
    else:
        sys.exit("no samples found")
    file.seek(0)
    file.write(data)
PYTHON
"$afflux" verify bent.nc >out.txt 2>&1
status=$?
[ "$status" -eq 3 ] || [ "$status" -eq 4 ] && ok "a bent sample is found" || not_ok "a bent sample is found: exit code $status" "$(cat out.txt)"

# A full disk: /dev/full takes no byte, a small tmpfs takes a few.
if mkdir small && mount -t tmpfs -o size=256k tmpfs small 2>/dev/null; then
    refused 1 "full disk" synth --points 1000 --steps 100 --variables 4 --ranks 3 --window 10 --out small/a.nc
    umount small
else
    skip "full disk" "no permission to mount a small tmpfs"
fi

if [ "$(id -u)" -ne 0 ]; then
    mkdir locked && chmod a-w locked
    refused 1 "unwritable directory" synth --points 10 --steps 5 --variables 1 --out locked/a.nc
else
    refused 1 "unwritable directory" synth --points 10 --steps 5 --variables 1 --out /proc/a.nc
fi

for mpi in $(mpis); do
    on_mpi "$mpi" 3
    exits 1 "$mpi: existing output on 3 ranks" "${afflux_on_mpi[@]}" synth --points 10 --steps 60 --variables 2 --out a.nc
    never_says "$mpi: no panic" 'panicked at'
done
[ "$before" = "$(cksum <a.nc)" ] && ok "the existing file is still untouched" || not_ok "the existing file is still untouched"
finish
