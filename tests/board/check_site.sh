#!/usr/bin/env bash
# Checks a board in a real browser: sorting, search and filters work; texts have contrast and do not cover each other;
# what a screen reader needs is there; nothing that a record says runs. Light, dark, desk and telephone.
#
#   tests/board/check_site.sh BUILD_FOLDER [PICTURE_FOLDER [RECORD...]]
#
# PICTURE_FOLDER, unless empty, receives screenshots of the main pages. A board of the RECORDs is checked as well: its
# overview, its tasks and its first records. AXE_CORE names an axe.min.js to run as well. CHROMIUM names the
# browser. Exit codes: 0 all right, 1 faults (printed), 2 usage, 77 no browser here: skipped.
set -euo pipefail

build=${1:-}
pictures=${2:-}
records=("${@:3}")
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ ! -x "$build/stepbench" ] || [ ! -x "$build/make_board_sample" ]; then
  echo "usage: check_site.sh BUILD_FOLDER [PICTURE_FOLDER [RECORD...]]; the folder holds stepbench and make_board_sample" >&2
  exit 2
fi
browser=${CHROMIUM:-}
for name in chromium chromium-browser google-chrome; do
  [ -n "$browser" ] || browser=$(command -v "$name" || true)
done
if [ -z "$browser" ]; then
  echo "check_site: no chromium here, skipped"
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME="$work/home"   # the browser's profile, caches and settings
mkdir -p "$HOME"

# browse SCHEME WIDTH HEIGHT ARGUMENTS.. URL; the browser's log goes to $work/log
browse() {
  local scheme=$1 width=$2 height=$3
  shift 3
  timeout 120 "$browser" --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars \
    --blink-settings="preferredColorScheme=$([ "$scheme" = dark ] && echo 0 || echo 1)" --window-size="$width,$height" \
    --virtual-time-budget=20000 --enable-logging=stderr "$@" 2>"$work/log"
}

"$build/make_board_sample" > "$work/sample.jsonl"
"$build/make_board_sample" hostile > "$work/hostile.jsonl"
"$build/stepbench" board "$work/sample.jsonl" --out "$work/site" --quiet
"$build/stepbench" board "$work/hostile.jsonl" --out "$work/hostile" --quiet
: > "$work/none.jsonl"
"$build/stepbench" board "$work/none.jsonl" --out "$work/empty" --quiet
sites=(site hostile empty)
if [ "${#records[@]}" -gt 0 ]; then
  "$build/stepbench" board "${records[@]}" --out "$work/given" --quiet
  sites+=(given)
fi
# The check becomes part of the only script that the pages' security policy allows.
for site in "${sites[@]}"; do
  cp -r "$work/$site" "$work/$site.checked"
  cat ${AXE_CORE:+"$AXE_CORE"} "$here/check_page.js" >> "$work/$site.checked/board.js"
done

faults=0
pages=0
# check SCHEME WIDTH SITE PAGE
check() {
  local dom result
  dom=$(browse "$1" "$2" 900 --dump-dom "file://$work/$3.checked/$4")
  result=$(printf '%s' "$dom" | sed -n '/<pre id="check">/,/<\/pre>/p' | sed 's/.*<pre id="check">//; s/<\/pre>.*//')
  pages=$((pages + 1))
  if ! grep -q '^DONE [0-9]' <<<"$result"; then
    faults=$((faults + 1))
    echo "check_site: $3/$4 ($1, $2): the check did not end"
  fi
  if grep -v '^DONE' <<<"$result" | grep . ; then
    faults=$((faults + 1))
    echo "check_site: the faults above are of $3/$4 ($1, $2 wide)"
  fi
  # Errors of scripts, and whatever the security policy had to stop.
  if grep CONSOLE "$work/log"; then
    faults=$((faults + 1))
    echo "check_site: the browser complains of $3/$4"
  fi
}

page_titled() { (cd "$work/$1" && grep -l "<title>$2" records/*.html); }
passed=$(page_titled site round_4.cu)
failed=$(page_titled site tail_forgotten.cu)
for page in index.html tasks/adamw.html tasks/lion.html records.html about.html "$passed" "$failed" \
  "$(page_titled site typo.cu)" "$(page_titled site first_kernel.cu)"; do
  check light 1280 site "$page"
done
for page in index.html tasks/adamw.html "$passed" "$failed"; do
  check dark 1280 site "$page"
  check light 390 site "$page"
done
check dark 390 site index.html
check light 320 site index.html   # WCAG 1.4.10: no sideways scrolling at 320
for page in index.html records.html $(cd "$work/hostile" && ls tasks/*.html | head -1) \
  $(cd "$work/hostile" && ls records/*.html | head -3); do
  check light 1280 hostile "$page"
done
check light 390 hostile index.html
check light 1280 empty index.html
if [ "${#records[@]}" -gt 0 ]; then
  given=$(cd "$work/given" && ls index.html records.html tasks/*.html && find records -name '*.html' | sort | sed -n 1,6p)
  for page in $given; do
    check light 1280 given "$page"
    check dark 390 given "$page"
  done
fi

if [ -n "$pictures" ]; then
  mkdir -p "$pictures"
  picture() { browse "$2" "$3" "$4" --screenshot="$pictures/$1.png" "file://$work/site/$5" >/dev/null; }
  picture overview light 1280 1180 index.html
  picture overview_dark dark 1280 1180 index.html
  picture overview_phone light 390 1400 index.html
  picture task light 1280 1500 tasks/adamw.html
  picture task_dark dark 1280 1500 tasks/adamw.html
  picture task_phone light 390 1600 tasks/adamw.html
  picture candidate light 1280 2200 "$passed"
  picture candidate_phone dark 390 2200 "$passed"
  picture failed light 1280 2300 "$failed"
  picture records light 1280 1200 records.html
fi

echo "check_site: $pages pages looked at, $faults with faults"
[ "$faults" -eq 0 ]
