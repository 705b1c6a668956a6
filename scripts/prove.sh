#!/bin/sh
# Has the SMT solver z3 check proofs/, and that each weakened rule breaks its proof. Installs z3 from PyPI
# beneath target/, once.
#   scripts/prove.sh            everything
#   scripts/prove.sh fencing    one system: fencing, exclusion or push
set -eu
cd "$(dirname "$0")/.."

Z3=5.4.0
environment=target/proofs-z3-$Z3

if [ ! -x "$environment/bin/python" ] || ! "$environment/bin/python" -c 'import z3' 2>/dev/null; then
    scripts/setup.sh python
    rm -rf "$environment"
    python3 -m venv "$environment"
    "$environment/bin/pip" --quiet --disable-pip-version-check install "z3-solver==$Z3"
fi
exec "$environment/bin/python" proofs/check.py "$@"
