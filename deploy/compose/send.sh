#!/bin/sh
# Sends webhooks as a host does: seals a registration for each task, issues the task, and completes it in a transaction of its
# own. Then waits until the buyer's inbox has them all.
#   usage: send.sh [COUNT]
set -eu
cd "$(dirname "$0")/../.."
compose="docker compose -f deploy/compose.yaml exec -T"
outboxd="${OUTBOXD:-$compose outboxd /usr/bin/outboxd}"
settings="${SETTINGS:-/etc/outboxd/outboxd.toml}"
seller="${SELLER:-$compose postgres psql -X -q -U postgres -d seller}"
buyer="${BUYER:-$compose postgres psql -X -q -U postgres -d buyer}"
url="${URL:-https://receiver:8443/hooks}"
count="${1:-1}"

received() { $buyer -At -c "select count(*) from adcp_webhook_inbox"; }
before="$(received)"
first="$(date +%s)"
seq "$count" | while read -r n; do
    printf '{"kind": "registration", "account_id": "acc_1", "task_id": "task_%s_%s", "task_type": "create_media_buy", "url": "%s", "operation_id": "op_%s_%s"}\n' \
        "$first" "$n" "$url" "$first" "$n"
done | $outboxd seal --config "$settings" | while read -r sealed; do
    cat <<SQL
select \$json\$$sealed\$json\$ as sealed \\gset
select outboxd.issue_task('acc_1', 'create_media_buy', null, (:'sealed'::jsonb ->> 'ciphertext')::bytea,
    (:'sealed'::jsonb ->> 'nonce')::bytea, :'sealed'::jsonb ->> 'task_id') as task \\gset
select outboxd.complete_task(:'task', '{"media_buy_id": "mb_1"}');
SQL
done | $seller -v ON_ERROR_STOP=1 > /dev/null
echo "$count tasks are completed"

waited=0
while [ "$(received)" -lt "$((before + count))" ]; do
    waited=$((waited + 1))
    if [ "$waited" -gt 60 ]; then
        echo "after a minute the buyer has $(($(received) - before)) of them" >&2
        exit 1
    fi
    sleep 1
done
echo "$count webhooks are in the buyer's inbox"
