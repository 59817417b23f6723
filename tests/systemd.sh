#!/bin/sh
# Boots a Debian in a container, installs outboxd by README's own steps ("Under systemd"), and sees that it delivers from its
# sandbox into the one of `outboxd receive`, that each reloads, is restarted by the watchdog, and drains. As root; a few minutes;
# not part of `make test`.
#   usage: systemd.sh [BINARY|PACKAGE.deb]      default: target/release/outboxd
set -eu
cd "$(dirname "$0")/.."
WHAT=${1:-target/release/outboxd}
[ -e "$WHAT" ] || { echo "no $WHAT: cargo build --release, or make deb" >&2; exit 1; }
for tool in mmdebstrap systemd-nspawn; do
    command -v $tool >/dev/null || { echo "missing: apt-get install mmdebstrap systemd-container" >&2; exit 1; }
done

WORK=$(mktemp -d /var/tmp/outboxd-systemd.XXXXXX)
ROOT=$WORK/root
NSPAWN=
stop() {
    [ -n "$NSPAWN" ] && kill -TERM "$NSPAWN" 2>/dev/null && wait "$NSPAWN" 2>/dev/null
    rm -rf "$WORK"
}
trap stop EXIT INT TERM

# One that was made before, to try again quickly.
if [ -n "${OUTBOXD_TEST_ROOT:-}" ]; then
    cp -a "$OUTBOXD_TEST_ROOT" "$ROOT"
else
    echo "== a Debian with Postgres"
    mmdebstrap --quiet --variant=apt bookworm "$ROOT" \
        --include=systemd,systemd-sysv,dbus,libnss-systemd,ca-certificates,procps,iproute2,postgresql,openssl,man-db,bash-completion
fi
CLONE=$ROOT/root/outboxd
rm -rf "$CLONE"
mkdir -p "$CLONE/target/release" "$CLONE/target/debian"
case $WHAT in
*.deb) cp "$WHAT" "$CLONE/target/debian/" ;;
*) cp "$WHAT" "$CLONE/target/release/outboxd" ;;
esac
cp -r deploy "$CLONE/"

echo "== booting"
systemd-nspawn -q -D "$ROOT" --register=no --keep-unit --private-network --console=pipe --link-journal=no -b \
    > "$WORK/console" 2>&1 &
NSPAWN=$!
LEADER=
for _ in $(seq 100); do
    LEADER=$(pgrep -P "$NSPAWN" -x systemd || true)
    [ -n "$LEADER" ] && nsenter -t "$LEADER" -a systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded' && break
    sleep 0.3
done
in_it() { nsenter -t "$LEADER" -a env PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"; }
until_ok() {
    what=$1; shift
    for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return 0; sleep 0.3; done
    echo "FAIL  $what" >&2
    in_it journalctl -u outboxd -u outboxd-receive -n 40 --no-pager -o cat >&2
    exit 1
}
as_postgres() { in_it setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }

# The block of shell under that heading which has this in it; the package is built already.
by_readme() {
    awk -v has="$1" '/^#/ { on = 0 } /^### Under systemd/ { on = 1 }
        on && /^```$/ && inside { if (index(block, has)) printf "%s", block; inside = 0 }
        on && inside { block = block $0 "\n" }
        on && /^```sh$/ { inside = 1; block = "" }' README.md | grep -v '^make deb$' > "$CLONE/block.sh"
    grep -qF -e "$1" "$CLONE/block.sh"
    in_it sh -eu -c 'cd /root/outboxd && sh -eux block.sh' > "$WORK/said" 2>&1 || { cat "$WORK/said"; exit 1; }
}
until_ok "Postgres runs" as_postgres psql -XAtc 'select 1'
as_postgres createdb app

echo "== installing by README"
case $WHAT in
*.deb) by_readme 'apt-get install' ;;
*) by_readme 'install -m 0755 target/release/outboxd' ;;
esac
by_readme 'outboxd keygen'
by_readme 'outboxd migrate'

# A buyer on loopback, which is opened to it and nothing else is.
in_it sh -eu -c '
cd /root/outboxd
curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $curve -keyout ca.key -out /etc/outboxd/ca.pem -days 60 -subj /CN=authority 2>/dev/null
openssl req $curve -keyout tls.key -out buyer.csr -subj /CN=buyer 2>/dev/null
echo subjectAltName=IP:127.0.0.1 > san
openssl x509 -req -in buyer.csr -CA /etc/outboxd/ca.pem -CAkey ca.key -CAcreateserial -days 60 -extfile san -out tls.pem 2>/dev/null
printf "{\"keys\": [%s]}\n" "$(cat signing.jwk.json)" > /etc/outboxd/jwks.json
chmod 0644 /etc/outboxd/ca.pem /etc/outboxd/jwks.json
cat >> /etc/default/outboxd <<SET
OUTBOXD_EGRESS__ALLOW=["127.0.0.1/32"]
OUTBOXD_EGRESS__TRUST_ANCHORS=["/etc/outboxd/ca.pem"]
SET
sed -i -e "s#^origin = .*#origin = \"https://127.0.0.1:8443\"#" -e "s#^jwks_url = .*#jwks_file = \"/etc/outboxd/jwks.json\"#" /etc/outboxd/receive.toml
for unit in outboxd outboxd-receive; do
    mkdir -p /etc/systemd/system/$unit.service.d
    printf "[Service]\nWatchdogSec=5s\n" > /etc/systemd/system/$unit.service.d/test.conf
done
systemctl daemon-reload'
by_readme 'systemctl enable --now outboxd-receive'
by_readme 'systemctl reload outboxd'
for unit in outboxd outboxd-receive; do
    until_ok "$unit is ready" in_it sh -c "systemctl is-active $unit && test \"\$(systemctl show -P NotifyAccess $unit)\" = main"
done

deliver() {
    task=$(as_postgres psql -XAt app -c 'select outboxd.new_task_id()')
    sealed=$(in_it sh -c "printf '%s' '{\"kind\": \"registration\", \"account_id\": \"acc_1\", \"task_id\": \"$task\", \"task_type\": \"create_media_buy\", \"url\": \"https://127.0.0.1:8443/hook\", \"operation_id\": \"op_1\"}' |
        outboxd seal --set 'egress.allow=[\"127.0.0.1/32\"]' --set 'envelope.key_files=[\"/etc/outboxd/credentials/envelope.key\"]'")
    as_postgres psql -qX -v ON_ERROR_STOP=1 app -c "
        select outboxd.issue_task('acc_1', 'create_media_buy', null, ('$sealed'::json ->> 'ciphertext')::bytea,
                                  ('$sealed'::json ->> 'nonce')::bytea, '$task');
        select outboxd.complete_task('$task', '{\"media_buy_id\": \"mb_1\"}')" > /dev/null
    until_ok "task $task is in the inbox" as_postgres psql -qX -v ON_ERROR_STOP=1 app -c "
        select 1 / count(*) from adcp_webhook_inbox where strpos(convert_from(body, 'utf8'), '$task') > 0"
}
deliver
echo "ok    delivered from one sandbox to the other, as users $(in_it ps -o user:32= -C outboxd | sort | xargs)"

in_it systemctl reload outboxd outboxd-receive
deliver
echo "ok    delivered after a reload"

pid() { in_it systemctl show -P MainPID "$1"; }
# Another process than that one.
again() { until_ok "$3" in_it sh -c "test \"\$(systemctl show -P MainPID $1)\" != $2 && systemctl is-active $1"; }
for unit in outboxd outboxd-receive; do
    before=$(pid $unit)
    in_it kill -STOP "$before"
    again $unit "$before" "the watchdog starts a hanging $unit again"
    deliver
    echo "ok    the watchdog started $unit again"
done

# What it does not know it tells of and passes.
faults=$(in_it systemd-analyze verify outboxd.service outboxd-receive.service 2>&1)
[ -z "$faults" ] || { echo "FAIL  $faults" >&2; exit 1; }
in_it man -w outboxd outboxd-receive > /dev/null
in_it bash -c '. /usr/share/bash-completion/bash_completion && __load_completion outboxd && complete -p outboxd' > /dev/null
echo "ok    units, manual and completions are in place"

case $WHAT in
*.deb)
    before=$(pid outboxd)
    in_it apt-get install -q -y --reinstall "/root/outboxd/target/debian/$(basename "$WHAT")" > "$WORK/said" 2>&1 || { cat "$WORK/said"; exit 1; }
    again outboxd "$before" "an upgrade restarts the daemon"
    deliver
    echo "ok    delivered after an upgrade"
    ;;
esac

for unit in outboxd outboxd-receive; do
    in_it systemctl stop $unit
    [ "$(in_it systemctl show -P ExecMainStatus $unit)" = 0 ]
    in_it journalctl -u $unit --no-pager -o cat | grep -q 'stopped'
done
echo "ok    drained on stop"

case $WHAT in
*.deb)
    in_it systemctl start outboxd
    in_it dpkg --remove outboxd > /dev/null
    [ "$(pid outboxd)" = 0 ]
    in_it sh -c '! [ -e /usr/bin/outboxd ] && [ -e /etc/outboxd/outboxd.toml ] && [ -e /etc/default/outboxd ]'
    in_it dpkg --purge outboxd > /dev/null 2>&1
    left=$(in_it find / -xdev \( -name '*outboxd*' -o -path '/etc/outboxd/*' \) -not -path '/root/*' -not -path '/proc/*' -not -path '/var/lib/private*')
    echo "ok    stopped when removed; left when purged: $(echo "$left" | sort | xargs)"
    in_it test -e /etc/outboxd/credentials/envelope.key
    ;;
esac
