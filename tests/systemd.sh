#!/bin/sh
# Boots a Debian in a container, installs outboxd by README's own steps ("Under systemd"), and sees that it delivers from inside
# its sandbox, reloads, is restarted by the watchdog, and drains. As root; a few minutes; not part of `make test`.
#   usage: systemd.sh [BINARY]      default: target/release/outboxd
set -eu
cd "$(dirname "$0")/.."
BINARY=${1:-target/release/outboxd}
[ -x "$BINARY" ] || { echo "no $BINARY: cargo build --release" >&2; exit 1; }
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
        --include=systemd,systemd-sysv,dbus,libnss-systemd,ca-certificates,procps,iproute2,postgresql,python3,openssl,man-db,bash-completion
fi
rm -rf "$ROOT/root/outboxd"
mkdir -p "$ROOT/root/outboxd/target/release"
cp "$BINARY" "$ROOT/root/outboxd/target/release/outboxd"
cp -r deploy "$ROOT/root/outboxd/"
# The first block of shell under that heading.
awk '/^### Under systemd/ { on = 1 } on && /^```$/ { exit } on && inside { print } on && /^```sh$/ { inside = 1 }' README.md \
    > "$ROOT/root/install.sh"
grep -q 'outboxd keygen' "$ROOT/root/install.sh"

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
    in_it journalctl -u outboxd -n 40 --no-pager -o cat >&2
    exit 1
}
as_postgres() { in_it setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
until_ok "Postgres runs" as_postgres psql -XAtc 'select 1'

echo "== installing by README"
in_it sh -eu -c 'cd /root/outboxd && PATH=$PATH:/usr/bin sh -eux /root/install.sh' > "$WORK/install" 2>&1 || { cat "$WORK/install"; exit 1; }
as_postgres createuser outboxd
as_postgres createdb app
as_postgres /usr/bin/outboxd migrate --set 'database.url=postgresql:///app?host=/run/postgresql' > /dev/null
as_postgres psql -qX app -c 'grant outboxd_daemon to outboxd'

# A receiver on loopback, which is opened to it and nothing else is.
in_it sh -eu -c '
cd /root
curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
openssl req -x509 $curve -keyout ca.key -out /etc/outboxd/ca.pem -days 60 -subj /CN=authority 2>/dev/null
openssl req $curve -keyout key.pem -out buyer.csr -subj /CN=buyer 2>/dev/null
echo subjectAltName=IP:127.0.0.1 > san
openssl x509 -req -in buyer.csr -CA /etc/outboxd/ca.pem -CAkey ca.key -CAcreateserial -days 60 -extfile san -out buyer.pem 2>/dev/null
chmod 0644 /etc/outboxd/ca.pem
cat >> /etc/default/outboxd <<SET
OUTBOXD_EGRESS__ALLOW=["127.0.0.1/32"]
OUTBOXD_EGRESS__TRUST_ANCHORS=["/etc/outboxd/ca.pem"]
SET
mkdir -p /etc/systemd/system/outboxd.service.d
printf "[Service]\nWatchdogSec=5s\n" > /etc/systemd/system/outboxd.service.d/test.conf
cat > receiver.py <<PY
import http.server, ssl
class Buyer(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        open("/root/received", "ab").write(body + b"\n")
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
server = http.server.HTTPServer(("127.0.0.1", 8443), Buyer)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("/root/buyer.pem", "/root/key.pem")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
PY
systemd-run --quiet --unit=buyer python3 /root/receiver.py
systemctl daemon-reload
systemctl enable --quiet --now outboxd'
until_ok "the receiver listens" in_it sh -c 'ss -ltn | grep -q :8443'
until_ok "the daemon is ready" in_it sh -c 'systemctl is-active outboxd && test "$(systemctl show -P NotifyAccess outboxd)" = main'

deliver() {
    task=$(as_postgres psql -XAt app -c 'select outboxd.new_task_id()')
    sealed=$(in_it sh -c "printf '%s' '{\"kind\": \"registration\", \"account_id\": \"acc_1\", \"task_id\": \"$task\", \"task_type\": \"create_media_buy\", \"url\": \"https://127.0.0.1:8443/hook\", \"operation_id\": \"op_1\"}' |
        outboxd seal --set 'egress.allow=[\"127.0.0.1/32\"]' --set 'envelope.key_files=[\"/etc/outboxd/credentials/envelope.key\"]'")
    as_postgres psql -qX -v ON_ERROR_STOP=1 app -c "
        select outboxd.issue_task('acc_1', 'create_media_buy', null, ('$sealed'::json ->> 'ciphertext')::bytea,
                                  ('$sealed'::json ->> 'nonce')::bytea, '$task');
        select outboxd.complete_task('$task', '{\"media_buy_id\": \"mb_1\"}')" > /dev/null
    until_ok "task $task is delivered" in_it grep -q "$task" /root/received
}
deliver
echo "ok    delivered from inside the sandbox, as user $(in_it ps -o user= -C outboxd)"

in_it systemctl reload outboxd
deliver
echo "ok    delivered after a reload"

PID=$(in_it systemctl show -P MainPID outboxd)
in_it kill -STOP "$PID"
until_ok "the watchdog starts a hanging daemon again" in_it sh -c "test \"\$(systemctl show -P MainPID outboxd)\" != $PID && systemctl is-active outboxd"
deliver
echo "ok    the watchdog started it again"

in_it systemctl stop outboxd
[ "$(in_it systemctl show -P ExecMainStatus outboxd)" = 0 ]
in_it journalctl -u outboxd --no-pager -o cat | grep -q 'stopped'
echo "ok    drained on stop"

in_it systemd-analyze verify --man=no /etc/systemd/system/outboxd.service
in_it man -w outboxd > /dev/null
echo "ok    unit and manual are in place"
