#!/usr/bin/env bash
# Installs what the build and the evaluation need, and does nothing where it is there already.
#   1. Debian or Ubuntu packages, by apt (with sudo when not root).
#   2. NVRTC and the CUDA headers, from pinned wheels into .deps/, only where no CUDA toolkit is found.
#   3. With the words `browser` or `slurm`: what these checks of CI need besides (Chromium; Slurm and munge).
# STEPBENCH_FORCE_WHEELS=1 takes the wheels even where a toolkit is found. STEPBENCH_DEPS names another folder than .deps.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(cmake ninja-build g++ ccache make libcli11-dev libfmt-dev nlohmann-json3-dev catch2 libbenchmark-dev
  libmuparser-dev libssl-dev libseccomp-dev libsqlite3-dev libkainjow-mustache-dev libeigen3-dev clang-format)
for word in "$@"; do
  case $word in
    browser) packages+=(chromium fonts-dejavu-core) ;;
    slurm) packages+=(slurm-wlm munge) ;;
    *) printf 'usage: install_dependencies.sh [browser] [slurm]\n' >&2; exit 2 ;;
  esac
done
readonly packages
# cuda_fp16.h includes nv/target (cccl) and crt/host_defines.h (crt).
readonly wheels=(nvidia-cuda-nvrtc==13.0.88 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88 nvidia-cuda-cccl==13.0.85)
readonly folder=${STEPBENCH_DEPS:-.deps}

say() { printf 'deps: %s\n' "$*"; }
fail() { printf 'deps: %s\n' "$*" >&2; exit 3; }

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"
  elif command -v sudo >/dev/null; then sudo "$@"
  else fail "cannot install packages: not root and no sudo; install these yourself: ${missing[*]}"
  fi
}

install_packages() {
  missing=("$@")
  say "installing ${missing[*]}"
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}")
  # Old package lists, or none, make the first try fail; only then are they fetched.
  as_root "${apt[@]}" >/dev/null 2>&1 && return
  as_root apt-get update -q >/dev/null || fail "apt-get update failed; is the network reachable?"
  as_root "${apt[@]}" >/dev/null || fail "apt-get could not install: ${missing[*]}"
}

packages_missing_of() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || printf '%s\n' "$package"
  done
}

have_nvrtc() {
  [ "${STEPBENCH_FORCE_WHEELS:-0}" = 1 ] && return 1
  local ldconfig
  ldconfig=$(command -v ldconfig || echo /sbin/ldconfig)
  # Read to the end: a pipe closed early by grep -q would end ldconfig with an error under pipefail.
  "$ldconfig" -p 2>/dev/null | grep 'libnvrtc\.so' >/dev/null && return 0
  local library
  for library in ${CUDA_HOME:+"$CUDA_HOME"/lib*/libnvrtc.so*} /usr/local/cuda*/lib*/libnvrtc.so* \
    /usr/local/cuda*/targets/*/lib/libnvrtc.so*; do
    [ -e "$library" ] && return 0
  done
  return 1
}

have_wheels() { [ "$(cat "$folder/wheels.txt" 2>/dev/null)" = "${wheels[*]}" ]; }

install_wheels() {
  python3 -m pip --version >/dev/null 2>&1 || install_packages python3 python3-pip
  say "no NVRTC found: fetching ${wheels[*]} into $folder"
  mkdir -p "$folder"
  scratch=$(mktemp -d "$folder/download.XXXXXX")   # global: the trap runs outside of this function
  trap 'rm -rf "$scratch"' EXIT
  python3 -m pip download --quiet --no-deps --dest "$scratch" "${wheels[@]}" ||
    fail "pip could not fetch the wheels; install a CUDA toolkit instead and set CUDA_HOME to it"
  local wheel
  for wheel in "$scratch"/*.whl; do python3 -m zipfile -e "$wheel" "$scratch/unpacked"; done
  rm -rf "$folder/nvidia"
  mv "$scratch/unpacked/nvidia" "$folder/nvidia"
  printf '%s' "${wheels[*]}" > "$folder/wheels.txt"   # last: an interrupted run starts again
}

missing=()
if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  mapfile -t missing < <(packages_missing_of "${packages[@]}")
  [ "${#missing[@]}" -eq 0 ] || install_packages "${missing[@]}"
else
  say "no apt here; the build needs what these Debian packages hold: ${packages[*]}"
fi
have_nvrtc || have_wheels || install_wheels
say "all there"
