#!/bin/sh
# Builds the image without an engine for it and runs what is in it: `make image`. As root on Debian; needs buildah, runc and
# mmdebstrap (apt-get install) and half an hour. Nothing can be pulled here, so the Dockerfile's base is made of Debian's packages and of
# this machine's Rust toolchain, under the name that FROM uses.
set -eu
cd "$(dirname "$0")/.."
base="docker.io/library/rust:1.95-bookworm"
epoch="$(git log -1 --format=%ct)"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

if ! buildah inspect --type image "$base" >/dev/null 2>&1; then
    mmdebstrap --variant=minbase --include=gcc,libc6-dev,ca-certificates bookworm "$work/base"
    toolchain="$(rustc --print sysroot)"
    mkdir -p "$work/base/usr/local/rust"
    cp -a "$toolchain/bin" "$toolchain/lib" "$work/base/usr/local/rust/"
    container="$(buildah from scratch)"
    buildah add -q "$container" "$work/base" /
    buildah config --env PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
    buildah commit -q "$container" "$base"
    buildah rm "$container" >/dev/null
fi
buildah bud --pull-never --format docker --build-arg SOURCE_DATE_EPOCH="$epoch" \
    -v /etc/ssl/certs/ca-certificates.crt:/etc/ssl/certs/ca-certificates.crt:ro -t outboxd:try .

buildah inspect --type image --format '{{.Docker.Config.User}} {{.Docker.Config.Entrypoint}} {{.Docker.Config.Healthcheck.Test}}' outboxd:try
container="$(buildah from --pull-never outboxd:try)"
buildah run "$container" -- /usr/bin/outboxd --version
buildah run "$container" -- /usr/bin/outboxd check-url https://127.0.0.1/ || [ $? = 65 ]
mounted="$(buildah mount "$container")"
du -sh "$mounted"
sha256sum "$mounted/usr/bin/outboxd"
buildah umount "$container" >/dev/null
buildah rm "$container" >/dev/null
echo "the image is outboxd:try"
