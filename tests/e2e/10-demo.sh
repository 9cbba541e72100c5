#!/usr/bin/env bash
# The first thing a person does: the demo, and its file in other programs.
. "$(dirname "$0")/lib.sh"

works "demo runs" "$afflux" demo demo
[ -s demo/run.nc ] && ok "it writes run.nc" || not_ok "it writes run.nc"
pictures=$(find demo -name '*.png' -size +1k | wc -l)
[ "$pictures" -ge 2 ] && ok "it plots" || not_ok "it plots" "$(ls -l demo)"
payload=$((1024 * 350 * 32)) bytes=$(stat -c %s demo/run.nc)
[ $((bytes * 10)) -le $((payload * 11)) ] && ok "file at most 1.1 times the payload" ||
    not_ok "file at most 1.1 times the payload: $bytes of $payload bytes"

works "ncdump reads the header" ncdump -h demo/run.nc
says "1,024 points" 'point = 1024 ;'
says "350 steps" 'time = UNLIMITED ; // \(350 currently\)'
says "discrete sampling geometry" 'featureType = "timeSeries"'
works "ncdump reads the values" ncdump demo/run.nc
works "h5dump reads all" h5dump -o /dev/null demo/run.nc

works "info" "$afflux" info demo/run.nc
says "info names a variable" 'Ez'
works "info --json" "$afflux" info --json demo/run.nc
python3 -m json.tool <<<"$output" >/dev/null 2>&1 && ok "it is JSON" || not_ok "it is JSON" "$output"
works "verify" "$afflux" verify demo/run.nc
says "verify has read every sample" '350 rows in .* columns, .* checked: whole'

before=$(cksum <demo/run.nc)
exits 1 "a second demo does not overwrite the first" "$afflux" demo demo
[ "$before" = "$(cksum <demo/run.nc)" ] && ok "the file is as before" || not_ok "the file is as before"
works "unless asked" "$afflux" demo demo --replace
[ "$before" = "$(cksum <demo/run.nc)" ] && ok "and the same bytes come out" || not_ok "and the same bytes come out"

works "plot as PNG" "$afflux" plot demo/run.nc --var Ez --point 0 --point 5 -o a.png
head -c 8 a.png | od -An -c | grep -q 'P *N *G' && ok "a PNG" || not_ok "a PNG"
works "plot as SVG with spectrum" "$afflux" plot demo/run.nc --var Ez --point 0 --spectrum -o a.svg
grep -q '<svg' a.svg && ok "an SVG" || not_ok "an SVG"
works "export csv" "$afflux" export demo/run.nc --format csv -o a.csv
# A row a step under a line of names: set, step, time, and 4 variables at 1,024 points.
shape=$(awk -F, '{ fields[NF]++ } END { for (count in fields) print fields[count], count }' a.csv)
[ "$shape" = "351 4099" ] && ok "csv has every value" || not_ok "csv has every value: lines and fields are $shape"
finish
