#!/bin/sh
# Says where a Prometheus is: the one in PATH, or Debian's, fetched once below target/ (or
# CARGO_TARGET_DIR) without changing the system. Fails where neither can be had.
set -eu
cd "$(dirname "$0")/.."

if command -v prometheus; then
    exit 0
fi
place=${CARGO_TARGET_DIR:-$PWD/target}/prometheus
program=$place/usr/bin/prometheus
if [ ! -x "$program" ]; then
    if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
        echo "scripts/prometheus.sh: no prometheus in PATH, and no apt-get to fetch it by" >&2
        exit 1
    fi
    mkdir -p "$(dirname "$place")"
    fresh=$(mktemp -d "$place.XXXXXX")
    trap 'rm -rf "$fresh"' EXIT
    (cd "$fresh" && apt-get download prometheus && dpkg -x prometheus_*.deb . && rm prometheus_*.deb) >&2
    # Somebody else may have been as fast.
    mv -T "$fresh" "$place" 2>/dev/null || [ -x "$program" ]
fi
echo "$program"
