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
refused 1 "no such variable" plot a.nc --var nonsense --point 0 -o x.png
says "no such variable: names those there are" 'v0'
refused 1 "no such point" plot a.nc --var v0 --point 999999 -o x.png
[ -e x.png ] && not_ok "no picture of nothing" || ok "no picture of nothing"

mkfifo pipe
refused 1 "a pipe is not waited for" info pipe
: >empty.nc
refused 3 "an empty file" verify empty.nc
printf 'not a file of ours\n' >text.nc
refused "1 3" "a text" info text.nc

# Models: damaged text, an unknown field, coordinates that are no numbers, a station twice, a point outside. Every one is told before
# a file begins.
printf '[grid\ncells = oops' >broken.toml
model() {
    printf 'steps = 5\ngrid = { cells = [10, 10, 10], cell_size = 0.01 }\n[[probes]]\nfields = ["%s"]\n%s\n' "$1" "$2" >"$3"
}
model Bz 'grid = "2x2x2"' field.toml
model Ez 'points = [{ name = "a", x = 0.05, y = nan, z = 0.05 }]' nan.toml
model Ez 'points = [{ name = "a", x = 0.05, y = 0.05, z = 0.05 }, { name = "a", x = 0.06, y = 0.05, z = 0.05 }]' twice.toml
model Ez 'points = [{ name = "a", x = 5.0, y = 0.05, z = 0.05 }]' outside.toml
model Ez 'stations = "nan.txt"' stations-nan.toml
model Ez 'stations = "twice.txt"' stations-twice.toml
model Ez 'stations = "missing.txt"' stations-missing.toml
printf 'A 0.05 0.05 0.05\nB 0.05 nan 0.05\n' >nan.txt
printf 'A 0.05 0.05 0.05\nA 0.06 0.05 0.05\n' >twice.txt
model Ez 'points = [{ name = "a", x = 0.05, y = 0.05, z = 0.05 }]' good.toml
works "the model that the damaged ones are made of" "$afflux" fdtd good.toml --out good.nc
while read -r file pattern; do
    refused 1 "$file" fdtd "$file.toml" --out b.nc --ranks 2
    says "$file: says where" "$pattern"
    for mpi in $(mpis); do
        on_every_rank 1 "$mpi: $file on every rank" "$mpi" 3 fdtd "$file.toml" --out b.nc
        says "$mpi: $file: says where" "$pattern"
        never_says "$mpi: $file: no panic" 'panicked at'
    done
done <<'TABLE'
broken line 1
field unknown variant .Bz.
nan probes.0..points.0..y
twice named .a. exists already
outside a .5, 0.05, 0.05
stations-nan line 2.*nan
stations-twice station A was there before
stations-missing missing.txt
TABLE
[ -e b.nc ] && not_ok "no file of a run that never began" || ok "no file of a run that never began"

head -c $(($(stat -c %s a.nc) / 2)) a.nc >half.nc
refused 3 "half a file" verify half.nc

# One sample changed, in place: verify names it (its checksum is wrong, and so is its value).
cp a.nc bent.nc
python3 - bent.nc <<'PYTHON'
import struct
import sys
with open(sys.argv[1], "r+b") as file:
    data = bytearray(file.read())
    # Values of synth are numbers in [0, 1), and no metadata looks like sixteen of them in a row: bend one in their middle.
    for offset in range(len(data) - 128):
        values = struct.unpack_from("<16d", data, offset)
        if all(1e-9 < value < 1 for value in values):
            data[offset + 64] ^= 0xFF
            break
    else:
        sys.exit("no samples found")
    file.seek(0)
    file.write(data)
PYTHON
[ "$(cmp -l a.nc bent.nc | wc -l)" -eq 1 ] && ok "one byte of a sample is bent" || not_ok "one byte of a sample is bent"
refused 3 "a bent sample is damage" verify bent.nc
refused 4 "and a wrong value" verify bent.nc --synth
says "of which there is one" '1 wrong'

# full NAME SIZE COMMAND...: the command on a small tmpfs at small/ fails; what it leaves does not pass for a whole file.
full() {
    local name=$1 bytes=$2
    shift 2
    mkdir -p small
    if ! mount -t tmpfs -o "size=$bytes" tmpfs small 2>/dev/null; then
        skip "$name" "no permission to mount a small tmpfs"
        return
    fi
    "$@"
    says "$name: says why, and of which file" 'small/a\.nc.*No space left'
    never_says "$name: no panic" 'panicked at'
    if [ -e small/a.nc ]; then
        output=$("$afflux" info --json small/a.nc 2>&1)
        says "$name: the file does not say that it was closed" '"closed": ?false'
        works "$name: what was sealed is right" "$afflux" verify --synth small/a.nc
    fi
    [ -z "$(find small -type f ! -name a.nc)" ] && ok "$name: nothing else is left" || not_ok "$name: nothing else is left" "$(ls -la small)"
    umount small
}
too_much=(synth --points 1000 --steps 100 --variables 4 --window 10 --out small/a.nc)
full "disk full at creation" 8k exits 1 "disk full at creation" "$afflux" "${too_much[@]}" --ranks 3
full "disk full at the first flush" 256k exits 1 "disk full at the first flush" "$afflux" "${too_much[@]}" --ranks 3
full "disk full later" 2m exits 1 "disk full later" "$afflux" "${too_much[@]}" --ranks 3
for mpi in $(mpis); do
    for size in 8k 256k 2m; do
        full "$mpi: disk of $size full" "$size" on_every_rank 1 "$mpi: disk of $size full, on every rank" "$mpi" 3 "${too_much[@]}"
    done
done

# An unwritable directory: root writes everywhere, so somebody else tries there.
mkdir locked
chmod a-w locked
if [ "$(id -u)" -ne 0 ]; then
    refused 1 "unwritable directory" synth --points 10 --steps 5 --variables 1 --out locked/a.nc
elif setpriv --reuid=65534 --regid=65534 --clear-groups true 2>/dev/null; then
    cp "$afflux" command
    chmod 755 . command
    exits 1 "unwritable directory" setpriv --reuid=65534 --regid=65534 --clear-groups ./command \
        synth --points 10 --steps 5 --variables 1 --out locked/a.nc
    says "unwritable directory: says why" 'Permission denied'
else
    skip "unwritable directory" "root, and no setpriv"
fi

for mpi in $(mpis); do
    on_every_rank 1 "$mpi: existing output, on every rank" "$mpi" 3 synth --points 10 --steps 60 --variables 2 --out a.nc
    says "$mpi: existing output: says why" 'exists already'
    never_says "$mpi: existing output: no panic" 'panicked at'
    on_every_rank 2 "$mpi: a rank count of its own, on every rank" "$mpi" 3 synth --points 10 --steps 6 --variables 1 --ranks 2 --out n.nc
    on_every_rank 1 "$mpi: no such directory, on every rank" "$mpi" 3 synth --points 10 --steps 6 --variables 1 --out missing/n.nc
done
[ "$before" = "$(cksum <a.nc)" ] && ok "the existing file is still untouched" || not_ok "the existing file is still untouched"
finish
