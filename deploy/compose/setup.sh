#!/bin/sh
# Makes what the try-out holds secret: a database password, the envelope key, a signing key with its published half, and an
# authority with the receiver's certificate. Keeps what is there. Needs openssl.
set -eu
umask 077
cd "$(dirname "$0")"
mkdir -p keys
cd keys

[ -e database-password ] || openssl rand -hex 16 > database-password
[ -e envelope.key ] || openssl rand -hex 32 > envelope.key
if [ ! -e jwks.json ]; then
    openssl genpkey -algorithm ed25519 -out signing.pem
    # The last 32 bytes of the public half, in base64url.
    x="$(openssl pkey -in signing.pem -pubout -outform DER | tail -c 32 | openssl base64 -A | tr '+/' '-_' | tr -d '=')"
    printf '{"keys": [{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "key_ops": ["verify"], "adcp_use": "webhook-signing", "kid": "try-out", "x": "%s"}]}\n' "$x" > jwks.json
fi
if [ ! -e receiver.pem ]; then
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=outboxd try-out" \
        -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign" -keyout ca.key -out ca.pem 2>/dev/null
    openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=receiver" -keyout receiver.key -out receiver.csr 2>/dev/null
    printf 'subjectAltName = DNS:receiver\nextendedKeyUsage = serverAuth\nbasicConstraints = critical,CA:FALSE\n' > receiver.ext
    openssl x509 -req -in receiver.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile receiver.ext -out receiver.pem 2>/dev/null
    rm -f receiver.csr receiver.ext ca.srl ca.key
fi
printf 'OUTBOXD_UID=%s\nOUTBOXD_GID=%s\n' "$(id -u)" "$(id -g)" > ../../.env
echo "keys and certificates are in deploy/compose/keys"
