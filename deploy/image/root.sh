#!/bin/sh
# Lays out the image's file system: the binary, the shared objects that it names, certificate authorities, an account, licences
# and the list of parts. Reads Debian's own files; every time stamp is SOURCE_DATE_EPOCH.
#   usage: root.sh BINARY DIRECTORY
set -eu
binary="$1"
image="$2"
here="$(cd "$(dirname "$0")" && pwd)"
epoch="${SOURCE_DATE_EPOCH:-0}"

install -D -m 0755 "$binary" "$image/usr/bin/outboxd"
# Line tables are four fifths of it, and those of C name folders of the building machine. A panic names its file and line without.
strip --strip-unneeded "$image/usr/bin/outboxd"
# A library is copied as a file under the name by which it is asked for, its loader among them.
ldd "$binary" | grep -o '/[^ ]*' | sort -u | while read -r library; do
    install -D -m 0755 "$library" "$image$library"
done
install -D -m 0644 /etc/ssl/certs/ca-certificates.crt "$image/etc/ssl/certs/ca-certificates.crt"
install -d -m 0755 "$image/etc/outboxd" "$image/usr/share/doc/outboxd"
printf 'outboxd:x:65532:65532:outboxd:/nonexistent:/usr/sbin/nologin\n' > "$image/etc/passwd"
printf 'outboxd:x:65532:\n' > "$image/etc/group"
# Only the database's name is looked up by the system; receivers' names never are.
printf 'hosts: files dns\n' > "$image/etc/nsswitch.conf"
# For sockets: sealing.listen, jwks.listen.
install -d -m 0750 -o 65532 -g 65532 "$image/run/outboxd"

install -m 0644 "$here/../../LICENSE" "$image/usr/share/doc/outboxd/LICENSE"
for package in libc6 libgcc-s1 ca-certificates; do
    install -m 0644 "/usr/share/doc/$package/copyright" "$image/usr/share/doc/outboxd/copyright.$package"
done
sh "$here/sbom.sh" > "$image/usr/share/doc/outboxd/sbom.cdx.json"
find "$image" -exec touch -h -d "@$epoch" {} +
