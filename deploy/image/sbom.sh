#!/bin/sh
# Prints what the binary is made of, as CycloneDX 1.5: every crate that is compiled into it, with version, licence and the
# checksum of Cargo.lock, and the Debian packages whose files lie beside it. Same sources, same text.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/../.."

{
    sed -n '/^name = /{s/name = "\(.*\)"/\1/;h};/^version = /{s/version = "\(.*\)"/\1/;H};/^checksum = /{s/checksum = "\(.*\)"/\1/;H;x;s/\n/ /g;s/^/sum /;p}' Cargo.lock
    cargo tree --locked --edges normal,build --prefix none --no-dedupe --format 'crate {p} {l}' | sort -u
    for package in libc6 libgcc-s1 ca-certificates; do
        dpkg-query --show --showformat 'debian ${Package} ${Version} ${Architecture}\n' "$package" 2>/dev/null || true
    done
} | awk -v epoch="${SOURCE_DATE_EPOCH:-0}" '
    function quoted(text) { gsub(/\\/, "\\\\", text); gsub(/"/, "\\\"", text); return "\"" text "\"" }
    function component(text) { parts = parts (parts == "" ? "" : ",\n") "    " text }
    $1 == "sum" { sum[$2 " " $3] = $4; next }
    $1 == "crate" {
        name = $2; version = substr($3, 2); licence = ""
        for (i = ($4 == "(proc-macro)" ? 5 : 4); i <= NF; i++) licence = licence (licence == "" ? "" : " ") $i
        # An older spelling of OR.
        gsub(/ *\/ */, " OR ", licence)
        if (name == "outboxd") { own = version; next }
        purl = "pkg:cargo/" name "@" version
        text = "{\"type\": \"library\", \"bom-ref\": " quoted(purl) ", \"name\": " quoted(name) ", \"version\": " quoted(version) ", \"purl\": " quoted(purl)
        if (licence != "") text = text ", \"licenses\": [{\"expression\": " quoted(licence) "}]"
        if (sum[name " " version] != "") text = text ", \"hashes\": [{\"alg\": \"SHA-256\", \"content\": \"" sum[name " " version] "\"}]"
        component(text "}")
    }
    $1 == "debian" {
        purl = "pkg:deb/debian/" $2 "@" $3 "?arch=" $4
        component("{\"type\": \"library\", \"bom-ref\": " quoted(purl) ", \"name\": " quoted($2) ", \"version\": " quoted($3) ", \"purl\": " quoted(purl) "}")
    }
    END {
        print "{"
        print "  \"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.5\", \"version\": 1,"
        print "  \"metadata\": {\"component\": {\"type\": \"application\", \"bom-ref\": \"pkg:cargo/outboxd@" own "\", \"name\": \"outboxd\", \"version\": \"" own "\", \"licenses\": [{\"expression\": \"Apache-2.0\"}]}},"
        print "  \"components\": ["
        print parts
        print "  ]"
        print "}"
    }'
