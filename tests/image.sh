#!/bin/sh
# Builds the image without an engine for it, looks at it, and lets two containers of it deliver to each other: `make image`. As root
# on Debian; tests/needs.sh installs what it needs; half an hour. Nothing can be pulled here, so the Dockerfile's base is made of
# Debian's packages and of this machine's Rust toolchain, under the name that FROM uses.
#   usage: image.sh [IMAGE]      of an IMAGE that is there already, only the running
set -eu
cd "$(dirname "$0")/.."
base="docker.io/library/rust:1.95-bookworm"
image="${1:-outboxd:try}"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
work="$(mktemp -d /var/tmp/outboxd-image.XXXXXX)"
chmod 0755 "$work"
postgres=
stop() {
    podman rm --force --time 0 outboxd-run outboxd-receive >/dev/null 2>&1 || true
    [ -z "$postgres" ] || { kill -INT "$postgres" && wait "$postgres" || true; }
    rm -rf "$work"
}
trap stop EXIT INT TERM

build() {
    if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
        mmdebstrap --quiet --variant=minbase --include=gcc,libc6-dev,ca-certificates bookworm "$work/base"
        toolchain="$(rustc --print sysroot)"
        mkdir -p "$work/base/usr/local/rust"
        cp -a "$toolchain/bin" "$toolchain/lib" "$work/base/usr/local/rust/"
        container="$(buildah from scratch)"
        buildah add -q "$container" "$work/base" /
        buildah config --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
        buildah commit -q "$container" "$base"
        buildah rm "$container" >/dev/null
    fi
    buildah bud --pull-never --format docker --build-arg SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}" \
        -v /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro -t "$image" .
}
[ $# = 1 ] || build

echo "== what is in it"
buildah inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{.Docker.Config.Cmd}} {{.Docker.Config.Healthcheck}}' "$image"
buildah inspect --type image --format '{{range $name, $value := .Docker.Config.Labels}}{{$name}}={{$value}}{{"\n"}}{{end}}' "$image"
container="$(buildah from --pull-never "$image")"
mounted="$(buildah mount "$container")"
echo "$(du -sm "$mounted" | cut -f 1) MB; $(grep -c '"purl"' "$mounted/usr/share/doc/outboxd/sbom.cdx.json") parts are listed"
(cd "$mounted" && sha256sum usr/bin/outboxd)
for path in "$PWD" "$(rustc --print sysroot)" "${CARGO_HOME:-$HOME/.cargo}" /src/target; do
    ! grep -qF "$path" "$mounted/usr/bin/outboxd" || { echo "FAIL  $path is in the binary" >&2; exit 1; }
done
buildah umount "$container" >/dev/null
buildah rm "$container" >/dev/null

echo "== a seller and a buyer of it, around this machine's Postgres"
as_postgres() { (cd / && exec setpriv --reuid=postgres --regid=postgres --init-groups "$@"); }
bin="$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)"
install -d -o postgres "$work/pg"
as_postgres "$bin/initdb" -D "$work/pg/data" -A trust --no-sync -E UTF8 --locale=C > /dev/null
(cd / && exec setpriv --reuid=postgres --regid=postgres --init-groups \
    "$bin/postgres" -D "$work/pg/data" -k "$work/pg" -c listen_addresses= > "$work/log" 2>&1) &
postgres=$!
until_ok() {
    what=$1; shift
    for _ in $(seq 100); do "$@" >/dev/null 2>&1 && return 0; sleep 0.3; done
    echo "FAIL  $what" >&2
    podman logs outboxd-run >&2 || true
    podman logs outboxd-receive >&2 || true
    exit 1
}
psql() { as_postgres psql -XAtq -v ON_ERROR_STOP=1 -h "$work/pg" "$@"; }
until_ok "Postgres runs" psql -c 'select 1'
psql -c 'create database app'

# A private directory of the image's user, where it makes its own keys.
install -d -o 65532 -g 65532 -m 0700 "$work/keys"
cat > "$work/env" <<SET
OUTBOXD_DATABASE__URL=postgresql:///app?host=/run/postgresql&user=postgres
OUTBOXD_ENVELOPE__KEY_FILES=["/keys/envelope.key"]
OUTBOXD_SIGNING__KEY_FILE=/keys/signing.pem
OUTBOXD_SIGNING__KEY_ID=try-out
OUTBOXD_EGRESS__ALLOW=["127.0.0.1/32"]
OUTBOXD_EGRESS__TRUST_ANCHORS=["/keys/ca.pem"]
OUTBOXD_RECEIVE__PROFILE=adcp-webhook
OUTBOXD_RECEIVE__LISTEN=127.0.0.1:18443
OUTBOXD_RECEIVE__TLS_CERT_FILE=/keys/tls.pem
OUTBOXD_RECEIVE__TLS_KEY_FILE=/keys/tls.key
OUTBOXD_RECEIVE__WEBHOOK__ORIGIN=https://127.0.0.1:18443
OUTBOXD_RECEIVE__WEBHOOK__SENDER=seller
OUTBOXD_RECEIVE__WEBHOOK__JWKS_FILE=/keys/jwks.json
SET
# As compose.yaml and the manifests have it: no capability, nothing writable. The limits are those that root may set here.
contained() {
    podman --runtime runc --cgroup-manager cgroupfs run --network host --ulimit nofile=10000:10000 --ulimit nproc=4000:4000 \
        --read-only --cap-drop all --security-opt no-new-privileges --env-file "$work/env" \
        -v "$work/pg:/run/postgresql" -v "$work/keys:/keys" "$@"
}
once() { contained --rm --no-healthcheck -i "$image" "$@"; }
once --version
once check-url https://169.254.169.254/ || [ $? = 65 ]
once keygen envelope --out /keys/envelope.key > /dev/null
once keygen ed25519 --out /keys/signing.pem --jwk /keys/signing.jwk.json --kid try-out > /dev/null
(
    cd "$work/keys"
    curve="-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"
    # shellcheck disable=SC2086  # a list of words
    openssl req -x509 $curve -keyout ca.key -out ca.pem -days 60 -subj /CN=authority 2>/dev/null
    # shellcheck disable=SC2086
    openssl req $curve -keyout tls.key -out tls.csr -subj /CN=buyer 2>/dev/null
    echo subjectAltName=IP:127.0.0.1 > san
    openssl x509 -req -in tls.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 60 -extfile san -out tls.pem 2>/dev/null
    printf '{"keys": [%s]}\n' "$(cat signing.jwk.json)" > jwks.json
    chown 65532:65532 -- *
)
once migrate > /dev/null
# Where no systemd runs, podman says each time that it has no timer for health checks; they are asked for below.
contained -d --name outboxd-receive -e OUTBOXD_ADMIN__LISTEN=127.0.0.1:19465 "$image" receive > /dev/null
# By the image's own command.
contained -d --name outboxd-run -e OUTBOXD_ADMIN__LISTEN=127.0.0.1:19464 "$image" > /dev/null
for name in outboxd-receive outboxd-run; do
    until_ok "$name says by its health check that it is well" podman --runtime runc healthcheck run $name
    until_ok "$name is ready" podman --runtime runc exec $name /usr/bin/outboxd healthcheck --ready
done
echo "ok    healthy, as user $(podman top outboxd-run huser | tail -n 1)"

task="$(psql app -c 'select outboxd.new_task_id()')"
sealed="$(printf '{"kind": "registration", "account_id": "acc_1", "task_id": "%s", "task_type": "create_media_buy", "url": "https://127.0.0.1:18443/hook", "operation_id": "op_1"}' "$task" | once seal)"
psql app -c "
    select outboxd.issue_task('acc_1', 'create_media_buy', null, ('$sealed'::json ->> 'ciphertext')::bytea,
                              ('$sealed'::json ->> 'nonce')::bytea, '$task');
    select outboxd.complete_task('$task', '{\"media_buy_id\": \"mb_1\"}')" > /dev/null
until_ok "task $task is in the inbox" psql app -c "
    select 1 / count(*) from adcp_webhook_inbox where strpos(convert_from(body, 'utf8'), '$task') > 0"
echo "ok    delivered from one container to the other"

for name in outboxd-run outboxd-receive; do
    podman --runtime runc stop --time 40 $name > /dev/null
    [ "$(podman inspect --format '{{.State.ExitCode}}' $name)" = 0 ]
done
echo "ok    drained on stop; the image is $image"
